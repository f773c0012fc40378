package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// original is a row of the source, copied one of the sink.
type (
	original struct {
		exporter.Identity
		digest       uint64
		bytes        int64
		kept, poison bool
	}
	copied struct {
		exporter.Identity
		digest  uint64
		genuine bool
	}
)

// lookAgain reads the windows of a group row by row and judges each event.
func (w *work) lookAgain(ctx context.Context, ids exporter.Range) error {
	originals, err := w.originals(ctx, ids)
	if err != nil {
		return err
	}
	copies, err := w.copies(ctx, ids)
	if err != nil {
		return err
	}
	var absent []Absent
	for _, id := range slices.Sorted(maps.Keys(originals)) {
		o := originals[id]
		found, right := w.match(&o, copies)
		delete(copies, id)
		switch {
		case !o.kept:
			w.result.OutsideFilter += int64(found)
		case found > 0 && !right:
			w.result.Differing++
			w.result.find(o.Identity, Differs)
		case found > 0:
		case w.Letters[id]:
			w.result.DeadLetters++
			w.result.find(o.Identity, DeadLetter)
		default:
			absent = append(absent, Absent{o.Identity, o.bytes})
		}
	}
	if err := w.judgeStrangers(ctx, copies); err != nil {
		return err
	}
	return w.judgeAbsent(ctx, ids, absent)
}

// match looks for the copies of an event. A copy under another identity than
// that of its id is extra: an id is never used again.
func (w *work) match(o *original, copies map[int64][]copied) (found int, right bool) {
	right = true
	for _, c := range copies[o.EventID] {
		if !same(o.Identity, c.Identity) {
			w.result.Extra++
			w.result.find(c.Identity, Extra)
			continue
		}
		if found++; found > 1 {
			w.result.Duplicates++
		}
		right = right && (o.poison || c.digest == o.digest)
	}
	return found, right
}

// same compares identities. A sink of JSON has replaced what is no UTF-8.
func same(source, sink exporter.Identity) bool {
	return source == sink || source.Seq == sink.Seq && source.EventID == sink.EventID && string([]rune(source.RunID)) == sink.RunID
}

func (w *work) originals(ctx context.Context, ids exporter.Range) (map[int64]original, error) {
	found := map[int64]original{}
	event, run := w.Copy.Digester()
	err := newPace().each(ids, func(piece exporter.Range) error {
		return w.Source.Scan(ctx, piece, w.Position, w.Content, func(row *docket.Scanned) error {
			if !w.judged(row.Event.ID) {
				return nil
			}
			o := original{
				Identity: row.Event.Identity(), kept: row.Kept, poison: row.Poison,
				bytes: int64(len(row.Event.EncodedPayload) + len(row.Event.EncodedMetadata)),
			}
			if o.kept && !o.poison {
				o.digest = event(&row.Event)
			}
			found[o.EventID] = o
			return nil
		})
	})
	if err != nil || run == nil {
		return found, err
	}
	return found, w.addRuns(ctx, found, run)
}

// addRuns adds the columns of their runs to the digests of events. Events of a
// run that was deleted meanwhile are gone.
func (w *work) addRuns(ctx context.Context, found map[int64]original, digest func(*exporter.Event) uint64) error {
	runs := map[string]uint64{}
	for _, o := range found {
		runs[o.RunID] = 0
	}
	there := map[string]bool{}
	for some := range slices.Chunk(slices.Collect(maps.Keys(runs)), runsAtOnce) {
		err := w.Source.RunColumns(ctx, some, func(run *exporter.Event) {
			runs[run.RunID], there[run.RunID] = digest(run), true
		})
		if err != nil {
			return err
		}
	}
	for id, o := range found {
		if !there[o.RunID] {
			delete(found, id)
			continue
		}
		o.digest += runs[o.RunID]
		found[id] = o
	}
	return nil
}

func (w *work) copies(ctx context.Context, ids exporter.Range) (map[int64][]copied, error) {
	found := map[int64][]copied{}
	return found, w.Copy.Rows(ctx, ids, func(id exporter.Identity, digest uint64, genuine bool) error {
		if w.judged(id.EventID) {
			found[id.EventID] = append(found[id.EventID], copied{id, digest, genuine})
		}
		return nil
	})
}

// judgeStrangers judges copies whose ids the source has not. They are extra
// when their run is there, is so young that nothing of it was pruned, and has
// begun below them; else Docket may have deleted their events, or an earlier run
// of the same id.
func (w *work) judgeStrangers(ctx context.Context, strangers map[int64][]copied) error {
	ids := map[string]bool{}
	for _, copies := range strangers {
		for _, c := range copies {
			ids[c.RunID] = true
		}
	}
	states := map[string]docket.RunState{}
	for some := range slices.Chunk(slices.Collect(maps.Keys(ids)), runsAtOnce) {
		more, err := w.Source.Runs(ctx, some)
		if err != nil {
			return err
		}
		maps.Copy(states, more)
	}
	for _, id := range slices.Sorted(maps.Keys(strangers)) {
		for _, c := range strangers[id] {
			state, exists := states[c.RunID]
			if !exists || !w.young(&state) || state.Events == 0 || id < state.FirstID {
				w.passOver(c)
				continue
			}
			w.result.Extra++
			w.result.find(c.Identity, Extra)
		}
	}
	return nil
}

// passOver counts a copy of which the source cannot tell whether it is right.
func (w *work) passOver(c copied) {
	if c.genuine {
		w.result.Unjudged++
		return
	}
	w.result.Invented++
	if len(w.result.Inventions) < mostInventions {
		w.result.Inventions = append(w.result.Inventions, c.Identity)
	}
}

// young reports whether nothing of a run can have been pruned. Docket takes the
// time of its start from the application's clock.
func (w *work) young(r *docket.RunState) bool {
	return w.Retention == 0 || r.Now.Sub(r.StartedAt) < w.Retention-Slack(w.Retention)
}

// Slack is how much earlier than the retention an event may be gone.
func Slack(retention time.Duration) time.Duration { return min(retention/10, time.Hour) }

// judgeAbsent has absent events repaired where that is wanted, and looks whether
// they are there then.
func (w *work) judgeAbsent(ctx context.Context, ids exporter.Range, absent []Absent) error {
	w.result.Missing += int64(len(absent))
	if len(absent) == 0 {
		return nil
	}
	there := map[int64][]copied{}
	if w.Repair != nil {
		refused, err := w.Repair(ctx, absent)
		if len(w.result.Refused) < mostListed {
			w.result.Refused = append(w.result.Refused, refused...)
		}
		if err == nil {
			err = w.Copy.Refresh(ctx)
		}
		if err == nil {
			there, err = w.copies(ctx, ids)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range absent {
		if slices.ContainsFunc(there[a.EventID], func(c copied) bool { return same(a.Identity, c.Identity) }) {
			w.result.Repaired++
			w.result.find(a.Identity, Repaired)
		} else {
			w.result.find(a.Identity, Missing)
		}
	}
	return nil
}
