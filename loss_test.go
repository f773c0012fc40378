package exporter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
)

// dieIn ends a life in the middle of a delivery.
func dieIn(t *testing.T, w *world) {
	t.Helper()
	w.at = func(point string) error {
		if point == "deliver" {
			panic(crash{})
		}
		return nil
	}
	var panicked *exporter.PanicError
	if err := w.once(); !errors.As(err, &panicked) {
		t.Fatalf("Run returned %v", err)
	}
	w.at = nil
}

func TestRowsGoneFromTheInterruptedBatchAreALoss(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2), event("a", 3))
		dieIn(t, w)
		delete(w.rows, 2)
		delete(w.rows, 1)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if len(w.store.losses) != 1 || w.store.losses[0].Count != 2 || w.store.losses[0].IDs != (exporter.Range{Lo: 1, Hi: 3}) {
			t.Errorf("losses %+v", w.store.losses)
		}
	})
}

// A second crash does not make the loss forgotten.
func TestLossOutlivesASecondCrash(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2), event("a", 3))
		dieIn(t, w)
		delete(w.rows, 2)
		dieIn(t, w)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if len(w.store.losses) != 1 || w.store.losses[0].Count != 1 {
			t.Errorf("losses %+v", w.store.losses)
		}
	})
}

func TestAllRowsGoneFromTheInterruptedBatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.insert(event("a", 1), event("a", 2))
		dieIn(t, w)
		clear(w.rows)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.store.position.High != 2 || len(w.store.losses) != 1 || w.store.losses[0].Count != 2 {
			t.Errorf("at %v, losses %+v", w.store.position, w.store.losses)
		}
	})
}

// Filtered rows that were passed before the batch, and not yet written down,
// are read again with it. They must not hide that rows of the batch are gone.
func TestRowsPassedBeforeTheBatchHideNoLoss(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		filtered := event("f", 1)
		filtered.filtered = true
		w.insert(filtered, filtered, filtered)
		w.at = func(point string) error {
			switch {
			case point == "polled" && w.count("polled") == 2: // the position has moved in memory
				w.insert(event("a", 1), event("a", 2))
			case point == "deliver":
				panic(crash{})
			}
			return nil
		}
		var panicked *exporter.PanicError
		if err := w.runFor(time.Second); !errors.As(err, &panicked) {
			t.Fatalf("Run returned %v", err)
		}
		w.at = nil
		if w.store.position.High != 0 {
			t.Fatalf("the position was written: %v", w.store.position)
		}
		delete(w.rows, 4)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if len(w.store.losses) != 1 || w.store.losses[0].Count != 1 {
			t.Errorf("losses %+v", w.store.losses)
		}
	})
}
