package pgserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// BaseBackup copies the running cluster and starts the copy as a streaming
// standby of it, which answers read-only queries.
func (c *Cluster) BaseBackup(ctx context.Context, o Options) (*Cluster, error) {
	standby, err := prepare(o)
	if err != nil {
		return nil, err
	}
	_, err = runProgram(ctx, standby.account, standby.dir, filepath.Join(standby.bindir, "pg_basebackup"),
		"-D", standby.dataDir(), "-d", c.URL("postgres"), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy cluster: %w", err), standby.temporary.remove())
	}
	if err := standby.Start(ctx); err != nil {
		return nil, errors.Join(err, standby.temporary.remove())
	}
	return standby, nil
}

// Promote makes a standby a primary of its own, on a new timeline, and returns
// when it takes writes.
func (c *Cluster) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to standby: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // promoted or not, the answer is known
	var done bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote(true, 60)").Scan(&done); err != nil {
		return fmt.Errorf("promote standby: %w", err)
	}
	if !done {
		return errors.New("promote standby: not promoted within 60 s")
	}
	return nil
}
