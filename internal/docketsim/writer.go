package docketsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Writer writes runs as a busy Docket does, each worker one run at a time. Set
// the fields before Run; a probability of 0 means never. NewWriter fills in
// typical values.
type Writer struct {
	Pool        *pgxpool.Pool
	Schema      string
	Concurrency int     // workers, at least 1; each needs a connection of Pool
	Rate        float64 // events per second aimed at; 0 is as fast as possible
	Seed        uint64  // of what each worker writes, but for run ids

	// SlowCommit is how likely a multi-statement transaction stays open between
	// SlowMin and SlowMax before it commits, as when an application starts a
	// run inside a transaction of its own.
	SlowCommit       float64
	SlowMin, SlowMax time.Duration
	// Rollback is how likely a transition is made once in vain: it draws its
	// ids, rolls back, and is made again with others.
	Rollback float64
	// Burn is how likely a run's first events are appended a second time, which
	// changes nothing but burns ids.
	Burn float64
	// KeepGoing makes the writer leave a run unfinished and go on when the
	// database fails it, for tests that kill servers. Without it the first
	// error ends Run.
	KeepGoing bool

	sql   statements
	limit *rate.Limiter
	count counters
}

// Stats count since the writer was made. Events, Runs, Finished and SlowCommits
// count what has been committed.
type Stats struct {
	Events      int64 // rows
	RolledBack  int64 // rows whose transaction rolled back
	Burned      int64 // ids drawn for rows that existed already
	Unknown     int64 // rows whose COMMIT got no answer; they may exist
	Runs        int64 // started
	Finished    int64 // brought to a terminal state
	SlowCommits int64 // transactions kept open on purpose
	Failures    int64 // transitions the database failed
}

type counters struct {
	events, rolledBack, burned, unknown, runs, finished, slow, failures atomic.Int64
}

// NewWriter returns a writer with 16 workers and a mix of everything.
func NewWriter(pool *pgxpool.Pool, schema string) *Writer {
	return &Writer{
		Pool: pool, Schema: schema, Concurrency: 16,
		SlowCommit: 0.05, SlowMin: 50 * time.Millisecond, SlowMax: 2 * time.Second,
		Rollback: 0.03, Burn: 0.03,
	}
}

// Stats may be called while Run runs.
func (w *Writer) Stats() Stats {
	c := &w.count
	return Stats{
		Events: c.events.Load(), RolledBack: c.rolledBack.Load(), Burned: c.burned.Load(), Unknown: c.unknown.Load(),
		Runs: c.runs.Load(), Finished: c.finished.Load(), SlowCommits: c.slow.Load(), Failures: c.failures.Load(),
	}
}

// Run writes until ctx ends, finishes the transactions that are open, and
// returns nil. Runs that were under way stay unfinished.
func (w *Writer) Run(ctx context.Context) error {
	w.sql = statementsFor(w.Schema)
	w.limit = rate.NewLimiter(rate.Inf, 0)
	if w.Rate > 0 {
		w.limit = rate.NewLimiter(rate.Limit(w.Rate), max(1, int(w.Rate/20)))
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range max(1, w.Concurrency) {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(i)))
		group.Go(func() error { return w.work(ctx, rng) })
	}
	return group.Wait()
}

// work writes one run after the other until ctx ends.
func (w *Writer) work(ctx context.Context, rng *rand.Rand) error {
	for ctx.Err() == nil {
		err := w.play(ctx, rng, tell(rng))
		if err == nil {
			continue
		}
		w.count.failures.Add(1)
		if !w.KeepGoing {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// play writes the transitions of one run, or as many as ctx leaves time for.
func (w *Writer) play(ctx context.Context, rng *rand.Rand, s *script) error {
	for i := range s.transitions {
		if !w.await(ctx, len(s.transitions[i].events)) {
			return nil
		}
		if err := w.transit(ctx, rng, s, i); err != nil {
			return fmt.Errorf("write run %s checkpoint %d: %w", s.runID, i+1, err)
		}
	}
	return nil
}

// await holds the writer to its rate; false when ctx has ended.
func (w *Writer) await(ctx context.Context, events int) bool {
	for ; events > 0 && w.Rate > 0; events -= w.limit.Burst() {
		if err := w.limit.WaitN(ctx, min(events, w.limit.Burst())); err != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// transit makes transition i of the run durable. It does not stop half-way when
// ctx ends, so that what is counted is what is there.
func (w *Writer) transit(ctx context.Context, rng *rand.Rand, s *script, i int) error {
	t := &s.transitions[i]
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if rng.Float64() < w.Rollback {
		if err := w.inVain(work, s, i); err != nil {
			return err
		}
	}
	var err error
	if i == 0 || t.outside {
		err = w.inTransaction(ctx, work, s, i, w.slowness(rng))
	} else {
		err = w.advance(work, w.Pool, s, i)
	}
	if err != nil {
		var refused *pgconn.PgError
		if !errors.Is(err, errNotDone) && !errors.As(err, &refused) {
			w.count.unknown.Add(int64(len(t.events)))
		}
		return err
	}
	w.counted(s, i)
	if i == 0 && rng.Float64() < w.Burn {
		if err := w.appendEvents(work, w.Pool, s, i, now()); err != nil {
			return err
		}
		w.count.burned.Add(int64(len(t.events)))
	}
	return nil
}

func (w *Writer) counted(s *script, i int) {
	w.count.events.Add(int64(len(s.transitions[i].events)))
	if i == 0 {
		w.count.runs.Add(1)
	}
	if s.transitions[i].wake == "terminal" {
		w.count.finished.Add(1)
	}
}

// slowness is how long a transaction stays open: mostly not at all.
func (w *Writer) slowness(rng *rand.Rand) time.Duration {
	if rng.Float64() >= w.SlowCommit {
		return 0
	}
	return w.SlowMin + time.Duration(rng.Float64()*float64(max(0, w.SlowMax-w.SlowMin)))
}

// HoldOpen starts a run in a transaction that draws its ids, stays open for
// the given while or until ctx ends, and then commits. Other transactions of
// the writer, and several of these, may run meanwhile.
func (w *Writer) HoldOpen(ctx context.Context, while time.Duration) error {
	held := &Writer{Pool: w.Pool, Schema: w.Schema, sql: statementsFor(w.Schema)}
	s := tell(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	work := context.WithoutCancel(ctx)
	if err := held.inTransaction(ctx, work, s, 0, while); err != nil {
		return fmt.Errorf("hold transaction open: %w", err)
	}
	w.counted(s, 0)
	w.count.slow.Add(1)
	return nil
}

// pause waits unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// now is the application's clock in the database's resolution.
func now() time.Time { return time.Now().Truncate(time.Microsecond) }
