package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

// politeSource reads no faster than a rate, and not at all while the database
// or a live consumer suffers. Beside a live consumer it reads smaller pages, and
// rests as long as it reads. It holds nothing open while it waits.
type politeSource struct {
	*docket.Until
	page     int // most events of one
	pace     *pace
	pressure *pressureWatch
	metrics  *exporter.ConsumerMetrics
	stop     func() <-chan struct{} // ends its waits
	took     time.Duration          // the last read
}

// yieldInterval is how long a read that is not due is put off at a time.
const yieldInterval = 200 * time.Millisecond

// Beside a live consumer. Small pages, because all who sync files wait for the
// largest write of any of them.
const (
	pageBesideLive = 1000
	mostRest       = time.Second
)

// Poll implements exporter.Source. An empty batch that says that it waits
// stands for not now.
func (s *politeSource) Poll(ctx context.Context, from exporter.Position) (exporter.Batch, error) {
	if now := s.pressure.look(ctx); now.reason != "" {
		s.hold(ctx, now.reason, func(ctx context.Context) { waitFor(ctx, yieldInterval) })
		return exporter.Batch{From: from, To: from, Waiting: true}, nil
	}
	page := s.page
	if s.pressure.isBesideLive() {
		page = min(page, pageBesideLive)
		s.hold(ctx, throttledRest, func(ctx context.Context) { waitFor(ctx, min(s.took, mostRest)) })
	}
	s.Limit(page)
	began := time.Now()
	b, err := s.Until.Poll(ctx, from)
	s.took = time.Since(began)
	if err == nil {
		s.hold(ctx, throttledRate, func(ctx context.Context) { s.pace.take(ctx, len(b.Events)+len(b.Poison)) })
	}
	return b, err
}

// hold counts how long wait takes, which a stop ends.
func (s *politeSource) hold(ctx context.Context, reason string, wait func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stop():
			cancel()
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	wait(ctx)
	s.metrics.Throttled(reason, time.Since(began))
}

// pace holds a page back until its events are due. A nil pace holds none.
type pace struct{ limit *rate.Limiter }

// newPace allows r events a second from the first on; pages have at most page.
func newPace(r Rate, page int) *pace {
	if r <= 0 {
		return nil
	}
	// A page that is late, because the sink or the disk was slow for a moment, may be made up for.
	limit := rate.NewLimiter(rate.Limit(r), page+max(1, int(r)))
	limit.AllowN(time.Now(), limit.Burst())
	return &pace{limit}
}

func (p *pace) take(ctx context.Context, events int) {
	for p != nil && events > 0 {
		n := min(events, p.limit.Burst())
		if p.limit.WaitN(ctx, n) != nil {
			return
		}
		events -= n
	}
}

// pressureWatch says why a backfill should not read now. It is safe for
// concurrent use.
type pressureWatch struct {
	store      *cursor.Store
	docket     *pgxpool.Pool
	schema     string
	liveLag    time.Duration // 0 looks at no consumer
	replicaLag time.Duration // 0 looks at no replica

	mu     sync.Mutex
	looked time.Time
	now    throttle
	live   bool // a live consumer runs
}

// throttle is why a backfill holds back; zero when it does not.
type throttle struct {
	reason string // a label of the metric
	detail string // for people
}

// Reasons to hold back.
const (
	throttledLiveLag    = "live_lag"    // a live consumer is behind
	throttledReplicaLag = "replica_lag" // a replica of Docket's database is behind
	throttledLocks      = "locks"       // somebody waits for a lock on Docket's tables
	throttledRest       = "rest"        // as long as the last read, beside a live consumer
	throttledRate       = "rate"        // --rate
)

// lookInterval is how often the surroundings are looked at.
const lookInterval = time.Second

// look returns why a read has to wait, if it has to. What cannot be
// seen is no reason to wait: the read itself will fail where it has to.
func (w *pressureWatch) look(ctx context.Context) throttle {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < lookInterval {
		return w.now
	}
	w.now = w.ask(ctx)
	w.looked = time.Now()
	return w.now
}

func (w *pressureWatch) ask(ctx context.Context) throttle {
	if w.liveLag > 0 {
		b, err := w.store.FurthestBehind(ctx)
		if w.live = err == nil && b.Name != ""; w.live && b.Time > w.liveLag {
			return throttle{throttledLiveLag, fmt.Sprintf("%s has been behind for %s", b.Name, b.Time.Round(time.Second))}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	p, err := docket.ReadPressure(ctx, w.docket, w.schema)
	switch {
	case err != nil:
		return throttle{}
	case p.WaitingLocks > 0:
		return throttle{throttledLocks, plural(int64(p.WaitingLocks), "lock request") + " on Docket's tables wait"}
	case w.replicaLag > 0 && p.ReplicaLag > w.replicaLag:
		return throttle{throttledReplicaLag, "a replica of Docket's database is " + p.ReplicaLag.Round(time.Second).String() + " behind"}
	}
	return throttle{}
}

// lookTimeout bounds one look.
const lookTimeout = 5 * time.Second

// reason is why reading waits, as of the last look, for people.
func (w *pressureWatch) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.detail
}

// isBesideLive reports whether a live consumer ran at the last look.
func (w *pressureWatch) isBesideLive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live
}
