package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// sampleEvery is how often the position is read. A latency is too long by up
// to that, half of it on average, and never too short.
const sampleEvery = time.Millisecond

// watch follows the consumer's stored position and takes the time until it
// covers what was committed.
type watch struct {
	conn      *pgx.Conn
	sql       string
	pending   []commit
	latencies sample // milliseconds
}

func newWatch(ctx context.Context, url, exportSchema string) (*watch, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to watch the position: %w", err)
	}
	return &watch{
		conn: conn,
		sql:  "SELECT high_id, holes::text FROM " + pgx.Identifier{exportSchema, "consumers"}.Sanitize() + " WHERE name = '" + consumer + "'",
	}, nil
}

func (w *watch) close() { _ = w.conn.Close(context.Background()) } // it has read only

// run returns when commits is closed and all of them are covered.
func (w *watch) run(ctx context.Context, commits <-chan commit) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var last time.Time
	for open := true; open || len(w.pending) > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		open = w.take(commits) && open
		if open {
			last = time.Now()
		} else if time.Since(last) > awaitAtMost {
			return fmt.Errorf("%d commits are not accepted %s after the last one", len(w.pending), awaitAtMost)
		}
		if len(w.pending) == 0 {
			continue
		}
		at, err := w.position(ctx)
		if err != nil {
			return err
		}
		w.settle(at, time.Now())
	}
	return nil
}

// take receives what was committed; false when the channel is closed.
func (w *watch) take(commits <-chan commit) bool {
	for {
		select {
		case c, ok := <-commits:
			if !ok {
				return false
			}
			w.pending = append(w.pending, c)
		default:
			return true
		}
	}
}

func (w *watch) position(ctx context.Context) (p exporter.Position, err error) {
	var holes string
	if err := w.conn.QueryRow(ctx, w.sql).Scan(&p.High, &holes); err != nil {
		return p, fmt.Errorf("read position: %w", err)
	}
	if p.Holes, err = exporter.ParseRanges(holes); err != nil {
		return p, fmt.Errorf("read position: %w", err)
	}
	return p, nil
}

// settle records the latency of the events that the position covers, and keeps
// the others pending.
func (w *watch) settle(at exporter.Position, now time.Time) {
	kept := w.pending[:0]
	for _, c := range w.pending {
		var open []int64
		for _, id := range c.ids {
			if at.Contains(id) {
				w.latencies = append(w.latencies, milliseconds(now.Sub(c.at)))
			} else {
				open = append(open, id)
			}
		}
		if len(open) > 0 {
			kept = append(kept, commit{ids: open, at: c.at})
		}
	}
	w.pending = kept
}
