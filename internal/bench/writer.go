package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// writers is how many runs are written at the same time.
const writers = 16

// commit is the ids of one committed transaction, and when its COMMIT returned.
type commit struct {
	ids []int64
	at  time.Time
}

// writer repeats the runs of a sample under new names, a transaction for each
// transition, and tells when each was committed. docketsim.Writer does not tell
// that; it also holds transactions open, which has no place here.
type writer struct {
	url       string
	schema    string
	name      string // of the runs, for a second writer into a schema
	rate      int    // events a second
	runs      []story
	committed chan commit

	commits atomic.Int64
	mu      sync.Mutex
	took    sample // milliseconds from sending a transaction to its answer
}

// run writes until ctx ends and finishes what is under way.
func (w *writer) run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(w.url)
	if err != nil {
		return fmt.Errorf("read URL: %w", err)
	}
	config.MaxConns, config.MinConns = writers, writers
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	limit := rate.NewLimiter(rate.Limit(w.rate), max(1, w.rate/20))
	var group errgroup.Group
	for i := range writers {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		group.Go(func() error {
			for n := 0; ; n++ {
				more, err := w.play(ctx, pool, limit, fmt.Sprintf("%srun-%02d-%08d", w.name, i, n), &w.runs[rng.IntN(len(w.runs))])
				if err != nil || !more {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// play writes one run; false when ctx has ended.
func (w *writer) play(ctx context.Context, pool *pgxpool.Pool, limit *rate.Limiter, runID string, s *story) (bool, error) {
	for i := range s.transitions {
		t := &s.transitions[i]
		for left := len(t.seq); left > 0; left -= limit.Burst() {
			if err := limit.WaitN(ctx, min(left, limit.Burst())); err != nil {
				return false, nil
			}
		}
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		began := time.Now()
		ids, err := w.write(work, pool, runID, s, i)
		cancel()
		if err != nil {
			return false, fmt.Errorf("write run %s: %w", runID, err)
		}
		at := time.Now()
		w.committed <- commit{ids: ids, at: at}
		w.commits.Add(1)
		w.mu.Lock()
		w.took = append(w.took, milliseconds(at.Sub(began)))
		w.mu.Unlock()
	}
	return true, nil
}

// write commits transition i: a run's start in a transaction of several
// statements, the others in one statement, as Docket does.
func (w *writer) write(ctx context.Context, pool *pgxpool.Pool, runID string, s *story, i int) ([]int64, error) {
	t := &s.transitions[i]
	events, runs := pgx.Identifier{w.schema, "docket_events"}.Sanitize(), pgx.Identifier{w.schema, "docket_runs"}.Sanitize()
	insert := `INSERT INTO ` + events + ` (run_id, seq, type, step, node_id, channel_id, task_id, payload, metadata, occurred_at, inserted_at)
		SELECT $1, e.seq, e.type, e.step, e.node_id, e.channel_id, e.task_id, e.payload, e.metadata, clock_timestamp(), clock_timestamp()
		FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bytea[])
			AS e (seq, type, step, node_id, channel_id, task_id, payload, metadata)
		ORDER BY e.seq RETURNING id`
	args := []any{runID, t.seq, t.kind, t.step, t.node, t.channel, t.task, t.payload, t.metadata}
	if i > 0 {
		rows, err := pool.Query(ctx, `WITH updated AS (UPDATE `+runs+` SET checkpoint_seq = checkpoint_seq + 1, updated_at = clock_timestamp()
			WHERE run_id = $1) `+insert, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	_, err = tx.Exec(ctx, `INSERT INTO `+runs+` (run_id, tenant_id, graph_id, graph_hash, status, state, wake_at, inserted_at, started_at, updated_at)
		VALUES ($1, $2, $3, $4, 'running', $5, now(), now(), now(), now())`, runID, s.tenant, s.graphID, s.graphHash, make([]byte, 400))
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, insert, args...)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	return ids, errors.Join(err, tx.Commit(ctx))
}

// commitTimes are how long transactions took, in milliseconds.
func (w *writer) commitTimes() sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
