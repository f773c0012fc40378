package exporter_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/docket-exporter/exporter"
)

// losing is a source that calls some of the ids it drops a loss.
type losing struct {
	*world
	lost exporter.Ranges
}

// Poll implements exporter.Source.
func (l losing) Poll(ctx context.Context, from exporter.Position) (exporter.Batch, error) {
	b, err := l.world.Poll(ctx, from)
	if ids := b.Dead.Intersect(l.lost); err == nil && len(ids) > 0 {
		b.Losses = []exporter.Loss{{
			Kind: exporter.LossPruned, IDs: exporter.Range{Lo: ids[0].Lo, Hi: ids[len(ids)-1].Hi}, Exactly: ids, Count: ids.Count(), Reason: "gone",
		}}
	}
	return b, err
}

// gap makes ids that were handed out and are gone.
func (w *world) gap(n int) {
	for range n {
		w.rollback(w.begin(event("gone", 1)))
	}
}

// copyLosing copies until caught up, with a source that loses ids.
func (w *world) copyLosing(halt bool, lost exporter.Ranges) error {
	o, state := w.claim()
	p := w.pipeline(o)
	p.Source, p.Once, p.HaltOnLoss = losing{w, lost}, true, halt
	return run(context.Background(), p, nil, state)
}

// scattered is rows with lost ids among them and at the end, and an id that
// was rolled back.
func (w *world) scattered() exporter.Ranges {
	w.insert(event("a", 1), event("b", 1))
	w.gap(3) // 3 to 5
	w.insert(event("a", 2), event("b", 2), event("a", 3))
	w.gap(1) // 9
	w.insert(event("b", 3), event("a", 4))
	w.gap(2) // 12, 13: burned, not lost
	w.insert(event("a", 5))
	return exporter.Ranges{{Lo: 3, Hi: 5}, {Lo: 9, Hi: 9}}
}

func (w *world) wantLost(want ...exporter.Range) {
	w.t.Helper()
	var got []exporter.Range
	for _, l := range w.store.losses {
		got = append(got, l.Exactly...)
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("losses of %v, want %v", got, want)
	}
}

func TestALossIsRecordedBeforeWhatLiesBehindIt(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 100} {
		inWorld(t, func(t *testing.T, w *world) {
			w.limit = limit
			lost := w.scattered()
			w.at = func(point string) error {
				if point == "deliver" && w.now.To.High >= 5 && len(w.store.losses) == 0 {
					t.Errorf("delivered up to %v before the loss was recorded", w.now.To)
				}
				return nil
			}
			if err := w.copyLosing(false, lost); err != nil {
				t.Fatal(err)
			}
			w.checkComplete()
			w.wantLost(lost...)
			if w.again() > 0 {
				t.Errorf("%d events taken twice", w.again())
			}
		})
	}
}

func TestALossHalts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 100
		lost := w.scattered()
		var pause *exporter.PauseError
		if err := w.copyLosing(true, lost); !errors.As(err, &pause) || pause.Reason != exporter.PausedPossibleLoss {
			t.Fatalf("Run returned %v", err)
		}
		w.wantLost(lost...)
		for id := range w.rows {
			if w.taken[id] > 0 || w.store.position.Contains(id) {
				t.Errorf("event %d was taken or passed", id)
			}
		}
		if err := w.copyLosing(true, lost); err != nil { // somebody has accepted it
			t.Fatal(err)
		}
		w.checkComplete()
		w.wantLost(lost...)
	})
}

func TestALossOfTheTailIsPassed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1))
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.gap(4)
		w.insert(event("b", 1))
		delete(w.rows, 6)
		w.insert(event("b", 2))
		if err := w.copyLosing(false, exporter.Ranges{{Lo: 2, Hi: 6}}); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		w.wantLost(exporter.Range{Lo: 2, Hi: 6})
	})
}

// A crash at any point neither forgets nor repeats a loss.
func TestALossIsRecordedOnceWhereverItCrashes(t *testing.T) {
	points := 0
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.copyLosing(false, w.scattered()); err != nil {
			t.Fatal(err)
		}
		points = len(w.points)
	})
	if points < 10 {
		t.Fatalf("only %d points", points)
	}
	for n := range points {
		inWorld(t, func(t *testing.T, w *world) {
			lost := w.scattered()
			w.at = func(string) error {
				if len(w.points) == n+1 {
					panic(crash{})
				}
				return nil
			}
			_ = w.copyLosing(false, lost)
			w.at = nil
			if err := w.copyLosing(false, lost); err != nil {
				t.Fatal(err)
			}
			w.checkComplete()
			w.wantLost(lost...)
		})
	}
}

// Rows of an interrupted batch that are gone halt the consumer as well, once
// the rest is delivered.
func TestAnUnknownDeliveryHalts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2))
		dieIn(t, w)
		delete(w.rows, 1)
		var pause *exporter.PauseError
		if err := w.copyLosing(true, nil); !errors.As(err, &pause) || pause.Reason != exporter.PausedPossibleLoss {
			t.Fatalf("Run returned %v", err)
		}
		if err := w.copyLosing(true, nil); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if len(w.store.losses) != 1 || w.store.losses[0].Kind != exporter.LossDeliveryUnknown {
			t.Errorf("losses %+v", w.store.losses)
		}
	})
}
