package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// A crash at every boundary of every call, by a panic and by the end of the
// context, costs at most the batch in flight a second delivery.
func TestCrashAtEveryBoundary(t *testing.T) {
	var points []string
	inWorld(t, func(t *testing.T, w *world) {
		w.fillMixed()
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		points = w.points
	})
	for k, point := range points {
		for _, how := range []string{"panic", "cancel"} {
			t.Run(fmt.Sprintf("%d %s %s", k, point, how), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.fillMixed()
					crashAt(t, w, k, how == "panic")
					if err := w.once(); err != nil {
						t.Fatal(err)
					}
					w.checkComplete()
					if w.again() > w.limit {
						t.Errorf("%d events taken again, a batch has %d", w.again(), w.limit)
					}
				})
			})
		}
	}
}

// crashAt runs w until its k-th boundary. A page that was being read ahead is
// read again after a panic; nothing else survives.
func crashAt(t *testing.T, w *world, k int, panics bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	usual := w.at
	w.at = func(point string) error {
		if len(w.points) != k+1 {
			return usual(point)
		}
		if panics {
			panic(crash{})
		}
		cancel()
		return ctx.Err()
	}
	o, state := w.claim()
	p := w.pipeline(o)
	p.Once = true
	err := run(ctx, p, nil, state)
	w.at = usual
	point := w.points[k]
	var panicked *exporter.PanicError
	switch {
	case panics && err == nil && (point == "poll" || point == "polled"):
	case panics && (!errors.As(err, &panicked) || panicked.Value != crash{} || len(panicked.Stack) == 0):
		t.Fatalf("Run returned %v after a panic", err)
	case !panics && !errors.Is(err, context.Canceled):
		t.Fatalf("Run returned %v after the end of its context", err)
	case !panics && (point == "deliver" || point == "delivered") && !errors.Is(err, exporter.ErrAbandoned):
		t.Fatalf("Run returned %v after the end of its context in a delivery", err)
	}
}

// TestPipelineAgainstModel lets writers, failures of every class, stops,
// crashes and takeovers come in any order, life after life, and then lets a
// calm life finish. The world checks each call.
func TestPipelineAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			w := newWorld(t)
			w.limit = rapid.IntRange(1, 5).Draw(t, "limit")
			writers := &writers{world: w, t: t, next: map[string]int64{}, busy: map[int64]string{}}
			for range rapid.IntRange(1, 6).Draw(t, "lives") {
				live(t, w, writers)
			}
			writers.finish()
			w.at = nil
			if err := w.once(); err != nil {
				t.Fatalf("the calm life ended with %v", err)
			}
			w.checkComplete()
		})
	})
}

// writers commit the transitions of a run one after the other, and those of
// different runs in any order.
type writers struct {
	*world
	t    *rapid.T
	next map[string]int64 // seq of a run's next event
	busy map[int64]string // runs with a transaction open, by their id
}

func (w *writers) act() {
	switch rapid.SampledFrom([]string{"nothing", "insert", "insert", "open", "end", "late"}).Draw(w.t, "write") {
	case "insert":
		if id := w.draw(); id > 0 {
			w.commitOne(id)
		}
	case "open":
		w.draw()
	case "end":
		if len(w.busy) == 0 {
			return
		}
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.busy))).Draw(w.t, "whose")
		if rapid.Bool().Draw(w.t, "commit") {
			w.commitOne(id)
		} else {
			w.rollback(id)
			delete(w.busy, id)
		}
	case "late": // no correct writer does this
		if dead := w.store.dead; len(dead) > 0 {
			id := rapid.SampledFrom(dead).Draw(w.t, "dead").Lo
			r := event(fmt.Sprintf("late-%d", id), 1)
			r.ID = id
			w.rows[id] = r
		}
	}
}

// draw begins a transaction of a run that has none open; 0 when it has.
func (w *writers) draw() int64 {
	run := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(w.t, "run")
	for _, r := range w.busy {
		if r == run {
			return 0
		}
	}
	r := event(run, w.next[run]+1)
	switch rapid.IntRange(0, 9).Draw(w.t, "row") {
	case 7:
		r.filtered = true
	case 8:
		r.poison = true
	case 9:
		r.refused = true
	}
	id := w.begin(r)
	w.busy[id] = run
	return id
}

func (w *writers) commitOne(id int64) {
	w.commit(id)
	w.next[w.busy[id]]++
	delete(w.busy, id)
}

func (w *writers) finish() {
	for id := range w.busy {
		w.commitOne(id)
	}
}

// end is why a life may end.
type end struct{ stopped, cancelled, crashed, paused, fenced bool }

// agrees reports whether what Run returned is one of the reasons it had.
func (e end) agrees(err error) bool {
	var panicked *exporter.PanicError
	var pause *exporter.PauseError
	switch {
	case err == nil:
		return e.stopped
	case errors.As(err, &panicked):
		return e.crashed
	case errors.As(err, &pause):
		return e.paused
	case errors.Is(err, exporter.ErrFenced):
		return e.fenced
	default:
		return e.cancelled && errors.Is(err, context.Canceled)
	}
}

// live runs the pipeline once, until something ends it.
func live(t *rapid.T, w *world, writers *writers) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	var why end
	halt := func() {
		if !why.stopped {
			why.stopped = true
			close(stop)
		}
	}
	left := rapid.IntRange(0, 60).Draw(t, "life")
	w.at = func(point string) error {
		if left--; left < 0 {
			halt()
			return nil
		}
		writers.act()
		switch rapid.SampledFrom([]string{"", "", "", "", "", "", "down", "later", "partial", "pause", "stop", "cancel", "panic", "taken"}).Draw(t, point) {
		case "down":
			return errDown
		case "later":
			return &exporter.RetryAfterError{Err: errDown, After: time.Hour}
		case "partial":
			if point == "deliver" {
				n := rapid.IntRange(0, len(w.now.Events)).Draw(t, "taken")
				return w.takeSome(n)
			}
		case "pause":
			why.paused = true
			return &exporter.PauseError{Reason: exporter.PausedSink, Detail: "no such table"}
		case "stop":
			halt()
		case "cancel":
			why.cancelled = true
			cancel()
			return ctx.Err()
		case "panic":
			why.crashed = true
			panic(crash{})
		case "taken":
			why.fenced = true
			w.store.epoch++
		}
		return nil
	}
	o, state := w.claim()
	p := w.pipeline(o)
	p.Linger = time.Duration(rapid.IntRange(0, 1).Draw(t, "linger")) * time.Second
	if err := run(ctx, p, stop, state); !why.agrees(err) {
		t.Fatalf("Run returned %v, a life had %+v", err, why)
	}
}

// takeSome takes the first n events of the batch offered, but no refused one
// and none after it.
func (w *world) takeSome(n int) error {
	for i, e := range w.now.Events[:n] {
		if w.rows[e.ID].refused {
			n = i
			break
		}
	}
	w.take(w.now.Events[:n])
	return &exporter.PartialError{Pending: w.now.Events[n:], Err: errDown}
}
