package exporter_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// holding makes a pipeline hold runs behind their dead letters.
func (w *world) holding(p *exporter.Pipeline) {
	p.Held = func(context.Context) (exporter.HeldRuns, error) {
		runs := exporter.HeldRuns{}
		for _, l := range w.store.letters {
			if l.Class != exporter.ClassExpired && !w.store.decided[l.Event.ID] {
				runs.Add(l.Event.Identity())
			}
		}
		return runs, nil
	}
}

// release is what a person's replay of a whole run does.
func (w *world) release(run string) {
	if w.store.decided == nil {
		w.store.decided = map[int64]bool{}
	}
	letters := slices.Clone(w.store.letters)
	slices.SortFunc(letters, func(a, b exporter.DeadLetter) int { return a.Event.Identity().Compare(b.Event.Identity()) })
	for _, l := range letters {
		if l.Event.RunID == run && !w.store.decided[l.Event.ID] {
			w.store.decided[l.Event.ID] = true
			w.replayed = append(w.replayed, l.Event.Identity())
			w.delivered = append(w.delivered, l.Event.Identity())
		}
	}
}

// checkHeld checks that no event of a run came before an earlier one of it, dead
// or not, and that each came, or waits.
func (w *world) checkHeld() {
	w.t.Helper()
	highest := map[string]int64{}
	for _, id := range w.delivered {
		if id.Seq <= highest[id.RunID] {
			continue // once more
		}
		if id.Seq != highest[id.RunID]+1 {
			w.t.Fatalf("%s/%d came after %d", id.RunID, id.Seq, highest[id.RunID])
		}
		highest[id.RunID] = id.Seq
	}
	for id := range w.rows {
		waits := slices.ContainsFunc(w.store.letters, func(l exporter.DeadLetter) bool { return l.Event.ID == id && !w.store.decided[id] })
		came := slices.ContainsFunc(w.delivered, func(i exporter.Identity) bool { return i.EventID == id })
		if waits == came || !w.store.position.Contains(id) {
			w.t.Fatalf("event %d: waits %v, came %v, at %v", id, waits, came, w.store.position)
		}
	}
}

// Whichever events cannot be delivered, named by the sink, found by halving or
// undecodable, whatever crashes and whenever a person releases a run: no later
// event of a run is sent before its earlier ones are accepted or released.
func TestHeldRunsKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(5, 40).Draw(rt, "events")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 9), n, n).Draw(rt, "kinds")
		runs := rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(rt, "runs")
		limit := rapid.IntRange(1, 12).Draw(rt, "limit")
		blind := rapid.Bool().Draw(rt, "blind")
		releases := rapid.SliceOfN(rapid.IntRange(0, 30), 4, 4).Draw(rt, "releases")
		crashAt := rapid.IntRange(1, 40).Draw(rt, "crash")
		inWorld(t, func(_ *testing.T, w *world) {
			w.t, w.limit, w.blind = rt, limit, blind
			if blind {
				w.limit = 2 * n // else a batch may hold nothing that is accepted, and that is an outage
			}
			seq := map[string]int64{}
			for i := range n {
				run := fmt.Sprintf("run%d", runs[i])
				seq[run]++
				r := event(run, seq[run])
				r.refused, r.poison = kinds[i] == 0, kinds[i] == 1
				w.insert(r, event(fmt.Sprintf("ok%d", i), 1)) // so that a sink that names nothing accepts something
			}
			step := 0
			w.at = func(point string) error {
				step++
				for i, at := range releases {
					if at == step && point != "accepted" {
						w.release(fmt.Sprintf("run%d", i))
					}
				}
				if step == crashAt && point != "polled" && point != "poll" {
					panic(crash{})
				}
				return nil
			}
			fast := func(p *exporter.Pipeline) { p.MaxAttempts = 2 }
			_ = w.runFor(10*time.Minute, w.holding, slowPolls, fast)
			if err := w.runFor(10*time.Minute, w.holding, slowPolls, fast); err != nil {
				rt.Fatal(err)
			}
			w.checkHeld()
			for i := range 4 {
				w.release(fmt.Sprintf("run%d", i))
			}
			w.insert(event("run0", seq["run0"]+1))
			if err := w.runFor(10*time.Minute, w.holding, slowPolls, fast); err != nil {
				rt.Fatal(err)
			}
			w.checkHeld()
			if len(w.store.letters) != len(w.store.decided) {
				rt.Fatalf("%d letters, %d decided", len(w.store.letters), len(w.store.decided))
			}
		})
	})
}

// A sink that names an event has accepted nothing: the rest comes again, without
// the later events of its run.
func TestNamedEventHoldsTheRestOfItsRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 20
		for seq := range int64(6) {
			r := event("r", seq+1)
			r.refused = seq == 2
			w.insert(r, event("other", seq+1))
		}
		if err := w.runFor(time.Minute, w.holding); err != nil {
			t.Fatal(err)
		}
		classes := map[string]int{}
		for _, l := range w.store.letters {
			classes[l.Class]++
		}
		if classes["refused"] != 1 || classes[exporter.ClassHeld] != 3 || len(w.store.letters) != 4 || w.again() != 0 || w.count("deliver") != 2 {
			t.Errorf("dead letters %v, %d taken again, %d requests", classes, w.again(), w.count("deliver"))
		}
		w.checkHeld()
		if got := w.store.events; got != 8 {
			t.Errorf("%d accepted", got)
		}
	})
}

// What is too old when it is to be sent is set aside, at every attempt anew, and
// the request without it has another token.
func TestExpiredAtEachAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 10
		for seq := range int64(4) {
			r := event("r", seq+1)
			r.OccurredAt = time.Now().Add(time.Duration(seq-2) * time.Hour) // two hours ago, one hour ago, now, in an hour
			w.insert(r)
		}
		tokens, sizes := map[string]bool{}, map[int]bool{}
		began := time.Now()
		w.at = func(point string) error {
			if point != "deliver" {
				return nil
			}
			tokens[w.now.Token("")], sizes[len(w.now.Events)] = true, true
			if time.Since(began) < 45*time.Minute {
				return errDown // accepted perhaps, and the answer lost
			}
			return nil
		}
		if err := w.runFor(3*time.Hour, slowPolls, w.holding, func(p *exporter.Pipeline) { p.MaxAge = 90 * time.Minute }); err != nil {
			t.Fatal(err)
		}
		if got := ids(w.store.letters); !slices.Equal(got, []int64{1, 2}) || w.store.letters[0].Attempts != 0 || w.store.letters[1].Attempts == 0 {
			t.Errorf("dead letters %v", w.store.letters)
		}
		if len(tokens) != 2 || !sizes[3] || !sizes[2] || w.taken[3] != 1 || w.taken[4] != 1 || w.store.events != 2 {
			t.Errorf("%d tokens, sizes %v, taken %v", len(tokens), sizes, w.taken)
		}
	})
}

// A batch of which nothing is left to send needs no sink and uses up no number.
func TestNothingLeftToSend(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 2
		for seq := range int64(7) {
			r := event("r", seq+1)
			r.OccurredAt = time.Now().Add(-2 * time.Hour)
			w.insert(r)
		}
		young := event("r", 8)
		young.OccurredAt = time.Now()
		w.insert(young)
		if err := w.runFor(time.Minute, func(p *exporter.Pipeline) { p.MaxAge = time.Hour }); err != nil {
			t.Fatal(err)
		}
		if w.count("deliver") != 1 || len(w.store.letters) != 7 || w.taken[8] != 1 || w.store.events != 1 || w.store.intent != nil {
			t.Errorf("%d requests, %d dead letters, %d events", w.count("deliver"), len(w.store.letters), w.store.events)
		}
	})
}
