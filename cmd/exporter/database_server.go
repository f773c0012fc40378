package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// leastVersion is the oldest PostgreSQL that has multiranges.
const leastVersion = 14

// querier is a connection or a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// serverVersion returns the major version, or refuses one that cannot hold the
// exporter's tables.
func serverVersion(ctx context.Context, db querier) (int, error) {
	var number int
	if err := db.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&number); err != nil {
		return 0, fmt.Errorf("read server version: %w", err)
	}
	version := number / 10000
	if version < leastVersion {
		return 0, needsPerson(fmt.Errorf("the export database runs PostgreSQL %d; the exporter's tables need %d or newer: set EXPORT_DATABASE_URL to such a server", version, leastVersion))
	}
	return version, nil
}

// serverState is what a server does with writes.
func serverState(ctx context.Context, db querier, url DatabaseURL) (standby, readOnly bool, err error) {
	err = db.QueryRow(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool").Scan(&standby, &readOnly)
	if err != nil {
		return false, false, explainConnect(url, err)
	}
	return standby, readOnly, nil
}

// isPrimary refuses a standby, on which neither open ids nor the lag are known.
func isPrimary(ctx context.Context, db querier, url DatabaseURL) error {
	standby, _, err := serverState(ctx, db, url)
	if err == nil && standby {
		err = fmt.Errorf("%s is a standby, on which it is not known what is still to come", url)
	}
	return err
}

// takesWrites tells a standby from a primary that was told to refuse writes;
// the server's own error is the same for both.
func takesWrites(ctx context.Context, db querier, url DatabaseURL) error {
	standby, readOnly, err := serverState(ctx, db, url)
	switch {
	case err != nil:
		return err
	case standby:
		return needsPerson(withHint(fmt.Errorf("%s is a standby and takes no writes", url),
			"connect to the primary, for example with several hosts and target_session_attrs=read-write in "+url.variable))
	case readOnly:
		return needsPerson(withHint(fmt.Errorf("%s takes no writes: default_transaction_read_only is on", url),
			"switch it off for this role, database or server, or in the options of "+url.variable))
	}
	return nil
}

// explainWrite is explainDatabase for commands that write: it asks the server
// why it takes none.
func explainWrite(ctx context.Context, db querier, url DatabaseURL, err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == readOnlyTransaction {
		if why := takesWrites(ctx, db, url); why != nil {
			return why
		}
	}
	return explainDatabase(err)
}

const readOnlyTransaction = "25006"
