package exporter_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
)

// sinkFunc is a sink of one function.
type sinkFunc func(context.Context, exporter.Batch) error

func (f sinkFunc) Deliver(ctx context.Context, b exporter.Batch) error { return f(ctx, b) }

// fails makes a boundary fail with err the first n times.
func (w *world) fails(point string, n int, err error) {
	w.at = func(p string) error {
		if p == point && n > 0 {
			n--
			return err
		}
		return nil
	}
}

func TestPoisonOnlyBatchNeedsNoSink(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		poison := event("a", 1)
		poison.poison = true
		w.insert(poison)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.count("begin") != 0 || w.count("deliver") != 0 || w.store.letters[0].Attempts != 0 {
			t.Errorf("calls %v, dead letters %+v", w.points, w.store.letters)
		}
	})
}

func TestRejectedEventsAreSetAside(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		no := event("a", 2)
		no.refused = true
		w.insert(event("a", 1), no, event("a", 3))
		w.at = func(point string) error {
			if point == "deliver" && w.now.Attempt == 2 && len(w.now.Events) != 2 {
				t.Errorf("sent again: %+v", w.now.Events)
			}
			return nil
		}
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.count("deliver") != 2 || w.count("accept") != 1 || w.store.events != 2 || w.store.letters[0].Attempts != 1 {
			t.Errorf("calls %v, dead letters %+v", w.points, w.store.letters)
		}
	})
}

// A sink may name an event twice, or one that it was not given.
func TestRejectionsAreTakenOnceAndOnlyFromTheBatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		no := event("a", 2)
		no.refused = true
		w.insert(event("a", 1), no)
		reject := exporter.Rejection{Event: w.rows[2].Event, Class: "refused"}
		alien := exporter.Rejection{Event: exporter.Event{RunID: "z", Seq: 1, ID: 99}, Class: "refused"}
		w.fails("deliver", 1, &exporter.RejectedError{Rejections: []exporter.Rejection{reject, alien, reject}})
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

// The whole row goes into the dead letter, whatever the sink kept of it.
func TestDeadLetterHoldsTheWholeEvent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		no := event("a", 1)
		no.refused, no.EncodedPayload = true, []byte{131, 106}
		w.insert(no)
		named := exporter.Event{RunID: "a", Seq: 1, ID: 1}
		w.fails("deliver", 1, &exporter.RejectedError{Rejections: []exporter.Rejection{{Event: named, Class: "refused"}}})
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		if got := w.store.letters[0].Event.EncodedPayload; !slices.Equal(got, no.EncodedPayload) {
			t.Errorf("dead letter holds %v", got)
		}
	})
}

func TestRejectionThatNamesNothingIsAnOutage(t *testing.T) {
	for _, named := range [][]exporter.Rejection{nil, {{Event: exporter.Event{RunID: "z", Seq: 1, ID: 99}}}} {
		inWorld(t, func(t *testing.T, w *world) {
			w.insert(event("a", 1))
			w.fails("deliver", 1000, &exporter.RejectedError{Rejections: named})
			if err := w.runFor(time.Minute); err != nil {
				t.Fatal(err)
			}
			if n := w.count("deliver"); n < 5 || n > 20 || len(w.store.letters) != 0 {
				t.Errorf("%d tries in a minute, dead letters %v", n, w.store.letters)
			}
		})
	}
}

func TestOnlyWhatIsPendingIsSentAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2), event("b", 1))
		w.at = func(point string) error {
			if point == "deliver" && w.now.Attempt < 3 {
				return w.takeSome(1)
			}
			return nil
		}
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.count("deliver") != 3 || w.again() != 0 || w.store.events != 3 {
			t.Errorf("calls %v, %d taken again", w.points, w.again())
		}
	})
}

// A sink that takes a little at a time is not one that fails: it is neither
// given up nor waited for longer and longer.
func TestProgressIsNoFailureInARow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 20
		for seq := range 20 {
			w.insert(event("a", int64(seq+1)))
		}
		w.at = func(point string) error {
			if point == "deliver" {
				return w.takeSome(1)
			}
			return nil
		}
		began := time.Now()
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if took := time.Since(began); w.count("deliver") != 20 || took > 3*time.Second {
			t.Errorf("%d calls in %v", w.count("deliver"), took)
		}
	})
}

// A batch of which nothing is pending is accepted, also while stopping.
func TestNothingPendingIsAccepted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		w.at = func(point string) error {
			if point == "deliver" {
				time.Sleep(2 * time.Second)
				return w.takeSome(1)
			}
			return nil
		}
		if err := w.runFor(time.Second); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

// The first to fail is not the last try: what failures mean to Once are those
// in a row, not rejections and not the attempts of earlier runs.
func TestOnceGivesUpAfterFailuresInARow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		w.fails("deliver", 1000, errDown)
		for run := range 2 {
			before := w.count("deliver")
			if err := w.once(); !errors.Is(err, errDown) {
				t.Fatalf("Once ended with %v", err)
			}
			if n := w.count("deliver") - before; n != 5 {
				t.Errorf("run %d tried %d times", run, n)
			}
		}
		w.at = nil
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

func TestOnceGivesUpOnEveryCall(t *testing.T) {
	for _, point := range []string{"poll", "begin", "accept"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.insert(event("a", 1))
			w.fails(point, 1000, errDown)
			if err := w.once(); !errors.Is(err, errDown) || w.count(point) != 5 {
				t.Errorf("%s: Once ended with %v after %d tries", point, err, w.count(point))
			}
		})
	}
}

// Once neither waits for an open id nor passes it.
func TestOnceKeepsOpenIDs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		late := w.begin(event("b", 1))
		w.insert(event("a", 2), event("a", 3), event("a", 4))
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		if got := w.store.position.String(); got != "5-{[2,2]}" {
			t.Fatalf("position %s", got)
		}
		w.commit(late)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.again() != 0 || len(w.taken) != 5 {
			t.Errorf("taken %v", w.taken)
		}
	})
}

func TestPauseEndsTheRunAndSkipsNothing(t *testing.T) {
	for _, point := range []string{"poll", "deliver", "sweep"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.rollback(w.begin(event("a", 1)))
			w.insert(event("a", 1))
			pause := &exporter.PauseError{Reason: exporter.PausedSourceChanged, Detail: "another table"}
			w.fails(point, 1, pause)
			var got *exporter.PauseError
			if err := w.once(); !errors.As(err, &got) || got != pause {
				t.Errorf("%s: Run returned %v", point, err)
			}
			if err := w.once(); err != nil {
				t.Fatal(err)
			}
			w.checkComplete()
		})
	}
}

// Whatever write is refused, the owner stops at once. The world refuses a sink
// call after it.
func TestFencedOwnerStops(t *testing.T) {
	for _, point := range []string{"begin", "accept", "reopen"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.rollback(w.begin(event("late", 1)))
			w.insert(event("a", 1), event("a", 2))
			w.at = func(p string) error {
				switch p {
				case point: // somebody else claims the consumer
					w.store.epoch++
				case "sweep": // the id that was declared dead appears
					late := event("late", 1)
					late.ID = 1
					w.rows[1] = late
				}
				return nil
			}
			if err := w.once(); !errors.Is(err, exporter.ErrFenced) {
				t.Errorf("%s: Run returned %v", point, err)
			}
			if last := w.points[len(w.points)-1]; last != point {
				t.Errorf("%s: the run went on to %s", point, last)
			}
			w.at = nil
			if err := w.once(); err != nil {
				t.Fatal(err)
			}
			w.checkComplete()
		})
	}
}

func TestPanicIsReturned(t *testing.T) {
	for _, point := range []string{"poll", "deliver", "accept"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.insert(event("a", 1))
			w.at = func(p string) error {
				if p == point {
					panic(crash{})
				}
				return nil
			}
			var panicked *exporter.PanicError
			if err := w.once(); !errors.As(err, &panicked) || panicked.Value != (crash{}) || len(panicked.Stack) == 0 {
				t.Errorf("%s: Run returned %v", point, err)
			}
		})
	}
}

func TestSweepDeliversLateRows(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.rollback(w.begin(event("late", 1)))
		w.insert(event("a", 1))
		w.at = func(point string) error {
			if point == "swept" && w.count("swept") == 1 {
				late := event("late", 1)
				late.ID = 1
				w.rows[1] = late
			}
			return nil
		}
		if err := w.runFor(59*time.Minute, slowPolls); err != nil {
			t.Fatal(err)
		}
		if w.taken[1] != 0 || w.count("sweep") != 1 || !w.store.dead.Contains(1) {
			t.Fatalf("taken %v, dead %v, %d sweeps", w.taken, w.store.dead, w.count("sweep"))
		}
		if err := w.runFor(2*time.Hour+time.Minute, slowPolls); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.count("reopen") != 1 || len(w.store.dead) != 0 {
			t.Errorf("%d reopened, dead %v", w.count("reopen"), w.store.dead)
		}
	})
}

// A row that appears at a dead id is not opened while a batch is in flight.
func TestSweepWaitsForTheBatchInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 20
		w.insert(event("a", 1))
		w.rollback(w.begin(event("late", 1)))
		dead := w.last
		w.insert(event("a", 2))
		if err := w.runFor(time.Minute); err != nil {
			t.Fatal(err)
		}
		w.blind = true
		r := event("poison", 1)
		r.refused = true
		w.insert(r)
		poison := w.last
		began := time.Now()
		w.at = func(point string) error {
			_, appeared := w.rows[dead]
			_, there := w.rows[poison]
			switch hours := time.Since(began).Hours(); {
			case point != "poll":
			case hours > 2 && !appeared:
				late := event("late", 1)
				late.ID = dead
				w.rows[dead] = late
			case hours > 3 && there:
				delete(w.rows, poison)
			case hours > 6 && w.last == poison:
				w.insert(event("a", 3))
			}
			return nil
		}
		if err := w.runFor(12*time.Hour, slowPolls); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}
