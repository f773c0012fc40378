package exporter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
)

// times notes when a boundary is passed.
func (w *world) times(point string) *[]time.Time {
	var at []time.Time
	usual := w.at
	w.at = func(p string) error {
		if p == point {
			at = append(at, time.Now())
		}
		if usual != nil {
			return usual(p)
		}
		return nil
	}
	return &at
}

func TestOutageIsRetriedForEver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2))
		w.fails("deliver", 600, errDown)
		tries := w.times("deliver")
		if err := w.runFor(24*time.Hour, slowPolls); err != nil {
			t.Fatal(err)
		}
		at := *tries
		w.checkComplete()
		if len(at) != 601 || w.again() != 0 || w.store.number != 1 || len(w.store.letters) != 0 {
			t.Fatalf("%d tries, batch %d, dead letters %v", len(at), w.store.number, w.store.letters)
		}
		differ := false
		for i := 1; i < len(at); i++ {
			wait, most := at[i].Sub(at[i-1]), min(100*time.Millisecond<<min(i-1, 20), 30*time.Second)
			if wait < most/2 || wait > most {
				t.Errorf("try %d came after %v, want %v to %v", i+1, wait, most/2, most)
			}
			differ = differ || i > 20 && wait != at[i-1].Sub(at[i-2])
		}
		if !differ {
			t.Error("the waits have no jitter")
		}
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		w.fails("deliver", 1, &exporter.RetryAfterError{Err: errDown, After: 10 * time.Minute})
		at := w.times("deliver")
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		if wait := (*at)[1].Sub((*at)[0]); wait < 10*time.Minute || wait > 11*time.Minute {
			t.Errorf("tried again after %v", wait)
		}
	})
}

func TestStopDuringBackoff(t *testing.T) {
	for _, point := range []string{"poll", "begin", "deliver"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.insert(event("a", 1))
			w.fails(point, 1000, errDown)
			began := time.Now()
			if err := w.runFor(time.Hour); err != nil {
				t.Fatalf("%s: Run returned %v", point, err)
			}
			if took := time.Since(began); took != time.Hour {
				t.Errorf("%s: Run returned after %v", point, took)
			}
			w.at = nil
			if err := w.once(); err != nil {
				t.Fatal(err)
			}
			w.checkComplete()
		})
	}
}

// What the sink has accepted is recorded, however long that takes.
func TestStopDuringRecordingWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		w.fails("accept", 20, errDown)
		if err := w.runFor(time.Second); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

func TestStopLetsTheDeliveryFinish(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		w.at = func(point string) error {
			if point == "deliver" {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
		began := time.Now()
		if err := w.runFor(time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("Run returned after %v", took)
		}
		w.checkComplete()
	})
}

func TestEndOfContextAbandonsTheDelivery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		o, state := w.claim()
		p := w.pipeline(o)
		p.Sink = sinkFunc(func(ctx context.Context, _ exporter.Batch) error {
			<-ctx.Done()
			return errDown
		})
		lost := errors.New("the lease is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, lost)
		defer cancel()
		if err := run(ctx, p, nil, state); !errors.Is(err, exporter.ErrAbandoned) || !errors.Is(err, lost) {
			t.Fatalf("Run returned %v", err)
		}
		if w.store.intent == nil || w.count("accept") != 0 {
			t.Errorf("the batch in flight was given up: calls %v", w.points)
		}
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

// steadyFiltered lets a row that the filter drops appear at every poll.
func steadyFiltered(w *world) {
	w.at = func(point string) error {
		if point == "poll" {
			r := event("f", w.last+1)
			r.filtered = true
			w.insert(r)
		}
		return nil
	}
}

func TestPositionOverFilteredRowsIsWrittenNowAndThen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		steadyFiltered(w)
		if err := w.runFor(62 * time.Second); err != nil {
			t.Fatal(err)
		}
		at := w.store.accepted
		if len(at) != 13 || w.count("begin") != 0 {
			t.Errorf("%d writes in 62 s, %d begun", len(at), w.count("begin"))
		}
		for i := 1; i < len(at)-1; i++ {
			if d := at[i].Sub(at[i-1]); d < 5*time.Second {
				t.Errorf("writes %v apart", d)
			}
		}
		w.checkComplete()
	})
}

// The stop may come while the source is down.
func TestPositionOverFilteredRowsIsWrittenOnStop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r := event("f", 1)
		r.filtered = true
		w.insert(r)
		w.at = func(point string) error {
			if point == "poll" && w.count("poll") > 1 {
				return errDown
			}
			return nil
		}
		if err := w.runFor(2 * time.Second); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

func TestEmptyPollsWriteNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.runFor(time.Minute); err != nil {
			t.Fatal(err)
		}
		if w.store.revision != 0 {
			t.Errorf("%d writes", w.store.revision)
		}
		if n := w.count("poll"); n < 590 || n > 620 {
			t.Errorf("%d polls in a minute, want about one in 100 ms", n)
		}
	})
}

func TestLingerLetsABatchFillUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.insert(event("a", 1))
		w.at = func(point string) error {
			if point == "polled" && w.last == 1 { // too late for this page
				w.insert(event("a", 2))
			}
			return nil
		}
		at := w.times("deliver")
		linger := func(p *exporter.Pipeline) { p.Linger = 3 * time.Second }
		if err := w.runFor(4*time.Second, linger); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if len(*at) != 1 || (*at)[0].Sub(began) != 3*time.Second {
			t.Errorf("delivered at %v, began %v", *at, began)
		}
	})
}

func TestLingerDoesNotHoldAFullBatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2), event("a", 3), event("a", 4))
		began := time.Now()
		at := w.times("deliver")
		linger := func(p *exporter.Pipeline) { p.Linger = time.Hour }
		if err := w.runFor(time.Minute, linger); err != nil {
			t.Fatal(err)
		}
		if len(*at) != 1 || !(*at)[0].Equal(began) {
			t.Errorf("delivered at %v, began %v", *at, began)
		}
		if w.store.position.High != 3 {
			t.Errorf("at %v", w.store.position)
		}
	})
}

// What a stop cannot write down costs only reading it again.
func TestStopDoesNotWaitForAPosition(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r := event("f", 1)
		r.filtered = true
		w.insert(r)
		w.fails("accept", 1_000_000, errDown)
		began := time.Now()
		if err := w.runFor(time.Minute); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("Run returned after %v", took)
		}
	})
}
