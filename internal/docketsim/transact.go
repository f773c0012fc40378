package docketsim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// querier is what the pool and a transaction have in common.
type querier interface {
	Execer
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// errNotDone marks an error after which the transition is surely not committed.
var errNotDone = errors.New("not committed")

// state stands for the opaque state of a run.
var state = EncodeEvent(map[string]any{"state": make([]byte, 400)})

// inTransaction makes a transition in a transaction of several statements that
// stays open for a while before its commit. ctx's end cuts the while short;
// statements run on work.
func (w *Writer) inTransaction(ctx, work context.Context, s *script, i int, while time.Duration) error {
	tx, err := w.Pool.Begin(work)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotDone, err)
	}
	defer func() { _ = tx.Rollback(work) }() // after a commit it does nothing
	if err := w.statements(work, tx, s, i); err != nil {
		return fmt.Errorf("%w: %w", errNotDone, err)
	}
	if while > 0 {
		w.count.slow.Add(1)
		pause(ctx, while)
	}
	return tx.Commit(work)
}

// inVain makes a transition up to its commit and rolls it back.
func (w *Writer) inVain(ctx context.Context, s *script, i int) error {
	tx, err := w.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a rollback it does nothing
	if i == 0 || s.transitions[i].outside {
		err = w.statements(ctx, tx, s, i)
	} else {
		err = w.advance(ctx, tx, s, i)
	}
	if err != nil {
		return err
	}
	w.count.rolledBack.Add(int64(len(s.transitions[i].events)))
	return tx.Rollback(ctx)
}

// statements are a transition's statements one by one: the start of a run, or a
// change from outside, which locks the run first.
func (w *Writer) statements(ctx context.Context, tx querier, s *script, i int) error {
	t, at := &s.transitions[i], now()
	if i == 0 {
		if _, err := tx.Exec(ctx, w.sql.insertRun, s.runID, s.tenant, s.graphID, s.graphHash, state,
			t.status, t.step, t.checkpoint, t.checkpointType, at); err != nil {
			return fmt.Errorf("insert run: %w", err)
		}
		if _, err := tx.Exec(ctx, w.sql.notify, w.Schema); err != nil {
			return fmt.Errorf("notify: %w", err)
		}
		return w.appendEvents(ctx, tx, s, i, at)
	}
	tag, err := tx.Exec(ctx, w.sql.updateRun, s.runID, t.checkpoint-1, t.status, t.step, t.checkpointType, at, t.wake)
	if err != nil {
		return fmt.Errorf("update run: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("update run: it is not at checkpoint %d", t.checkpoint-1)
	}
	return w.appendEvents(ctx, tx, s, i, at)
}

// appendEvents inserts a transition's events unless they are there.
func (w *Writer) appendEvents(ctx context.Context, db querier, s *script, i int, at time.Time) error {
	args := append([]any{s.runID, at}, columns(s.transitions[i].events)...)
	if _, err := db.Exec(ctx, w.sql.appendEvents, args...); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	return nil
}

// advance makes a transition in one statement.
func (w *Writer) advance(ctx context.Context, db querier, s *script, i int) error {
	t := &s.transitions[i]
	args := append([]any{s.runID, t.checkpoint - 1, t.status, t.step, t.checkpointType, now(), t.wake}, columns(t.events)...)
	var inserted int
	if err := db.QueryRow(ctx, w.sql.advance, args...).Scan(&inserted); err != nil {
		return fmt.Errorf("advance run: %w", err)
	}
	if inserted != len(t.events) {
		return fmt.Errorf("%w: advance run: it is not at checkpoint %d", errNotDone, t.checkpoint-1)
	}
	return nil
}
