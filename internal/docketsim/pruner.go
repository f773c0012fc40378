package docketsim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pruner deletes what has outlived its retention, as Docket 0.3.0 does, but
// for graph versions.
type Pruner struct {
	Schema string
	Events time.Duration // event retention
	Runs   time.Duration // run retention; 0 leaves finished runs alone
	Batch  int           // most rows a pass; default 1000
}

// Pruned says what a pass did.
type Pruned struct {
	Skipped      bool // another session held the lock
	Events, Runs int64
}

// Beginner begins transactions: a connection or a pool of pgx.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Pass makes one pass: one transaction, one batch. It tries the lock and is
// skipped where it does not get it at once. Events go by inserted_at whatever
// the state of their run; finished runs take the rest of their events along.
func (p Pruner) Pass(ctx context.Context, db Beginner) (done Pruned, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var had bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('docket:pruner:' || $1::text, 0))`, p.Schema).Scan(&had); err != nil {
			return err
		}
		if !had {
			done.Skipped = true
			return nil
		}
		batch := p.Batch
		if batch == 0 {
			batch = 1000
		}
		schema := strings.NewReplacer("$schema", pgx.Identifier{p.Schema}.Sanitize())
		tag, err := tx.Exec(ctx, schema.Replace(pruneEvents), p.Events, batch)
		if err != nil {
			return err
		}
		done.Events = tag.RowsAffected()
		if p.Runs == 0 {
			return nil
		}
		tag, err = tx.Exec(ctx, schema.Replace(pruneRuns), p.Runs, batch)
		done.Runs = tag.RowsAffected()
		return err
	})
	if err != nil {
		return Pruned{}, fmt.Errorf("prune schema %s: %w", p.Schema, err)
	}
	return done, nil
}

const pruneEvents = `
DELETE FROM $schema.docket_events WHERE id IN (
	SELECT id FROM $schema.docket_events WHERE inserted_at < transaction_timestamp() - $1::interval
	ORDER BY inserted_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)`

const pruneRuns = `
DELETE FROM $schema.docket_runs WHERE id IN (
	SELECT id FROM $schema.docket_runs
	WHERE status IN ('done', 'failed', 'cancelled') AND updated_at < transaction_timestamp() - $1::interval
	ORDER BY updated_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)`
