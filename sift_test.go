package exporter_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// One event that the sink refuses without naming it costs itself and at most
// eleven requests, wherever it stands among a thousand.
func TestOneRefusedEventIsFound(t *testing.T) {
	for _, at := range []int{0, 1, 499, 500, 998, 999} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.blind, w.limit = true, 1000
				for i := range 1000 {
					r := event(fmt.Sprintf("run%04d", i), 1)
					r.refused = i == at
					w.insert(r)
				}
				if err := w.once(); err != nil {
					t.Fatal(err)
				}
				w.checkComplete()
				if extra := w.count("deliver") - 1; extra > 11 {
					t.Errorf("%d further requests", extra)
				}
				if len(w.store.letters) != 1 || w.store.letters[0].Class != "constraint" || w.again() != 0 {
					t.Errorf("letters %v, %d taken again", ids(w.store.letters), w.again())
				}
			})
		})
	}
}

// A sink that accepts nothing at all is out of order, whatever it says about
// the data: nothing is set aside and nothing passed.
func TestSinkThatRefusesEverythingIsAnOutage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.blind, w.limit = true, 100
		for i := range 100 {
			r := event(fmt.Sprintf("run%d", i), 1)
			r.refused = true
			w.insert(r)
		}
		if err := w.runFor(time.Hour); err != nil {
			t.Fatal(err)
		}
		if len(w.store.letters) != 0 || w.store.position.High != 0 {
			t.Fatalf("%d dead letters at %v", len(w.store.letters), w.store.position)
		}
		// A try is given up after eight events; between tries the wait grows to 30 s.
		if n := w.count("deliver"); n > 60*60/15*80 {
			t.Errorf("%d requests in an hour", n)
		}
		for id, r := range w.rows { // and when it is in order again, everything is delivered
			r.refused = false
			w.rows[id] = r
		}
		if err := w.runFor(time.Minute); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

// An outage in which the sink refuses everything may end at any moment, also
// while the one to blame is searched for: nothing is set aside for it.
func TestOutageThatEndsAtAnyRequest(t *testing.T) {
	for healthy := range 12 {
		inWorld(t, func(t *testing.T, w *world) {
			w.limit = 20
			for _, run := range []string{"a", "b", "c", "d", "e"} {
				w.insert(event(run, 1))
			}
			asked := 0
			w.at = func(point string) error {
				if point == "deliver" {
					if asked++; asked < 40+healthy {
						return &exporter.RefusedError{Err: errDown, Class: "constraint"}
					}
				}
				return nil
			}
			if err := w.runFor(time.Hour); err != nil {
				t.Fatal(err)
			}
			if w.checkComplete(); w.again() != 0 {
				t.Errorf("in order from request %d on: %d taken again", 40+healthy, w.again())
			}
		})
	}
}

// One event alone that the sink refuses may mean anything. It is told from an
// outage as soon as there are others: they are read into its batch, also after
// a crash.
func TestRefusedEventAloneWaitsForOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.blind, w.limit = true, 100
		r := event("poison", 1)
		r.refused = true
		w.insert(r)
		w.insert(event("poison", 2))
		for range 2 { // the second time as a batch that was begun before
			if err := w.runFor(time.Hour); err != nil {
				t.Fatal(err)
			}
			if len(w.store.letters) != 0 || w.store.position.High != 0 {
				t.Fatalf("%d dead letters at %v", len(w.store.letters), w.store.position)
			}
		}
		w.insert(event("other", 1))
		if err := w.runFor(time.Minute); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if len(w.store.letters) != 1 || w.store.letters[0].Event.RunID != "poison" || w.store.letters[0].Event.Seq != 1 || w.again() != 0 {
			t.Errorf("letters %v, %d taken again", ids(w.store.letters), w.again())
		}
	})
}

// What of its batch is set aside in any case does not keep a refused event from
// being told from an outage.
func TestRefusedAloneBesideWhatIsSetAside(t *testing.T) {
	for name, change := range map[string]func(w *world, p *exporter.Pipeline){
		"held":    func(w *world, p *exporter.Pipeline) { w.holding(p) },
		"expired": func(_ *world, p *exporter.Pipeline) { p.MaxAge = 30 * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.limit = 20
				bad := event("r", 1)
				bad.poison = true
				w.insert(bad)
				with := func(p *exporter.Pipeline) { change(w, p) }
				if err := w.runFor(time.Minute, with); err != nil {
					t.Fatal(err)
				}
				w.blind = true
				old, refused := event("r", 2), event("poison", 1)
				old.OccurredAt, refused.OccurredAt, refused.refused = time.Now().Add(-time.Hour), time.Now(), true
				w.insert(old, refused)
				if err := w.runFor(10*time.Minute, with); err != nil {
					t.Fatal(err)
				}
				other := event("other", 1)
				other.OccurredAt = time.Now()
				w.insert(other)
				if err := w.runFor(10*time.Minute, with); err != nil {
					t.Fatal(err)
				}
				if len(w.store.letters) != 3 || w.taken[4] != 1 || w.store.intent != nil {
					t.Errorf("letters %v, taken %v, in flight %+v", ids(w.store.letters), w.taken, w.store.intent)
				}
			})
		})
	}
}

// The later events of a run wait until the refused one is decided.
func TestLaterEventsWaitForTheRefusedOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.blind, w.limit = true, 9
		w.insert(event("other", 1))
		for seq := range int64(8) {
			r := event("run", seq+1)
			r.refused = seq == 2
			w.insert(r)
		}
		tries := 0
		w.at = func(point string) error {
			if point != "deliver" {
				return nil
			}
			third, later := false, false
			for _, e := range w.now.Events {
				third = third || e.RunID == "run" && e.Seq == 3
				later = later || e.RunID == "run" && e.Seq > 3
			}
			if third {
				tries++
			}
			if later && !third && tries < 10 {
				t.Errorf("attempt %d offers later events after %d tries of the refused one", w.now.Attempt, tries)
			}
			return nil
		}
		if err := w.runFor(10 * time.Minute); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.again() != 0 || w.store.letters[0].Attempts < 10 {
			t.Errorf("%d taken again; dead letter after %d attempts", w.again(), w.store.letters[0].Attempts)
		}
	})
}

// Whatever events of however many runs are refused: while another run's event
// is accepted, each costs itself alone.
func TestSiftingRandomRefusals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "events")
		refused := rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(rt, "refused")
		runs := rapid.SliceOfN(rapid.IntRange(0, 5), n, n).Draw(rt, "runs")
		inWorld(t, func(_ *testing.T, w *world) {
			w.t, w.blind, w.limit = rt, true, n+1
			w.insert(event("accepted", 1))
			seq := map[int]int64{}
			for i := range n {
				seq[runs[i]]++
				r := event(fmt.Sprintf("run%d", runs[i]), seq[runs[i]])
				r.refused = refused[i] == 0
				w.insert(r)
			}
			if err := w.runFor(6*time.Hour, slowPolls, func(p *exporter.Pipeline) { p.MaxAttempts = 5 }); err != nil {
				rt.Fatal(err)
			}
			w.checkComplete()
			if w.again() != 0 {
				rt.Fatalf("%d taken again", w.again())
			}
		})
	})
}

// An overloaded sink gets fewer requests, and they grow; afterwards the pace
// comes back.
func TestOverloadedSinkGetsFewerRequests(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.backlog(60)
		over := true
		w.at = func(point string) error {
			if point == "deliver" && over {
				return &exporter.RetryAfterError{Err: errDown, Overloaded: true}
			}
			return nil
		}
		if err := w.runFor(5 * time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := w.count("deliver"); n > 20 {
			t.Errorf("%d requests in five minutes", n)
		}
		if len(w.store.letters) != 0 {
			t.Errorf("%d dead letters", len(w.store.letters))
		}
		over = false
		if err := w.runFor(5 * time.Minute); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}
