package cursor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
)

// execer is a pool or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// write makes one fenced write, which leads to want and reports how many rows
// it changed. A database error leaves the outcome open and the belief as it
// was: the same write again settles it.
func (c *Cursor) write(ctx context.Context, want row, do func(context.Context) (int64, error)) error {
	if err := c.pace(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	n, err := do(ctx)
	resetReadOnly(c.store.pool, err)
	if err == nil && n == 0 {
		err = c.settle(ctx, &want)
	}
	if err != nil {
		return fmt.Errorf("write cursor of %s: %w", c.name, err)
	}
	want.revision++
	c.row, c.wrote = want, time.Now()
	return nil
}

// settle decides what a write that changed no row means: it has gone through
// already and only its answer got lost, or it is stale.
func (c *Cursor) settle(ctx context.Context, want *row) error {
	now, err := c.read(ctx, c.store.pool)
	switch {
	case err != nil:
		return err
	case now.epoch == c.epoch && now.revision == c.row.revision+1 && now.same(want):
		return nil
	default:
		return c.fenced(now)
	}
}

// read returns the consumer as it is stored. One that was removed is fenced.
func (c *Cursor) read(ctx context.Context, pool *pgxpool.Pool) (row, error) {
	now, err := scanRow(pool.QueryRow(ctx, c.store.sql("SELECT "+rowColumns+" FROM {consumers} c WHERE c.uid = $1::text::uuid"), c.uid))
	if errors.Is(err, pgx.ErrNoRows) {
		return now, fmt.Errorf("%w: it was removed", exporter.ErrFenced)
	}
	return now, err
}

// fenced says why the owner must stop.
func (c *Cursor) fenced(now row) error {
	switch {
	case now.epoch != c.epoch && now.owner == c.owner && now.instance != c.store.instance:
		c.store.shared.Store(true)
		return fmt.Errorf("%w: epoch %d of another process of the same name, %s, ours is %d", exporter.ErrFenced, now.epoch, now.owner, c.epoch)
	case now.epoch != c.epoch && now.owner == c.owner:
		return fmt.Errorf("%w: epoch %d of %s, ours is %d: a person has moved the cursor", exporter.ErrFenced, now.epoch, now.owner, c.epoch)
	case now.epoch != c.epoch && now.owner != "":
		return fmt.Errorf("%w: epoch %d of %s, ours is %d", exporter.ErrFenced, now.epoch, now.owner, c.epoch)
	case now.epoch != c.epoch:
		return fmt.Errorf("%w: epoch %d, ours is %d", exporter.ErrFenced, now.epoch, c.epoch)
	case now.pause != nil:
		return fmt.Errorf("%w: %w", exporter.ErrFenced, &PausedError{Name: c.name, Pause: *now.pause})
	default:
		return fmt.Errorf("%w: a newer write of ours went through", exporter.ErrFenced)
	}
}

// slowestPace is the wait between writes while a long transaction is open.
// Until it ends no version of the row can be removed, and each write makes all
// reads of it slower.
const slowestPace = time.Second / 20

func (c *Cursor) pace(ctx context.Context) error {
	if !c.slow.Load() {
		return nil
	}
	wait := slowestPace - time.Since(c.wrote)
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
