package reconcile

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/docket-exporter/exporter/sources/docket"
)

// runs are the runs of which not all rows were seen: those that go on, and
// those that something is wrong with, or lies outside of what is compared.
type runs map[string]*seen

// seen is what was seen of a run, in any order.
type seen struct {
	rows, first, last int64
	ended             int64 // seq of the checkpoint with which it ended; 0 when it was not seen

	windows []share // of the events compared whose run's columns are not in their window's sum yet
}

// share is how many of a run's events lie in a window.
type share struct{ window, events int64 }

func (r runs) see(row *docket.Scanned) *seen {
	s := seen{rows: 1, first: row.Event.Seq, last: row.Event.Seq}
	if row.Terminal {
		s.ended = row.Event.Seq
	}
	return r.add(row.Event.RunID, &s)
}

func (r runs) add(run string, s *seen) *seen {
	before, known := r[run]
	if !known {
		before = &seen{first: s.first}
		r[strings.Clone(run)] = before // a row's texts share their memory
	}
	before.rows += s.rows
	before.first, before.last, before.ended = min(before.first, s.first), max(before.last, s.last), max(before.ended, s.ended)
	return before
}

func (r runs) merge(o runs) {
	for run, s := range o {
		r.add(run, s)
	}
}

// compare notes that an event of the window is compared.
func (s *seen) compare(window int64) {
	if n := len(s.windows) - 1; n >= 0 && s.windows[n].window == window {
		s.windows[n].events++
	} else {
		s.windows = append(s.windows, share{window, 1})
	}
}

// whole reports whether all rows of a run were seen, and none is missing.
func (s *seen) whole() bool { return s.first == 1 && s.ended == s.rows && s.last == s.rows }

// forget takes those of the runs out of which all is known and right.
func (w *work) forget(these runs) {
	for run := range these {
		if s := w.runs[run]; s.whole() {
			w.result.RunsWhole++
			delete(w.runs, run)
		}
	}
}

// judgeRuns judges the runs that are left.
func (w *work) judgeRuns(ctx context.Context) error { return w.lookUpRuns(ctx, w.Source) }

// lookUpRuns asks the source about the runs that are left, and forgets them. A
// run of which rows come later is asked about again.
func (w *work) lookUpRuns(ctx context.Context, source *docket.Source) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(w.runs)), runsAtOnce) {
		states, err := source.Runs(ctx, some)
		if err != nil {
			return err
		}
		for _, run := range some {
			state, exists := states[run]
			if !exists {
				continue // deleted since
			}
			if err := w.judgeRun(ctx, source, run, &state); err != nil {
				return err
			}
		}
	}
	clear(w.runs)
	return nil
}

func (w *work) judgeRun(ctx context.Context, source *docket.Source, run string, state *docket.RunState) error {
	switch {
	case !state.Finished:
		w.result.RunsOpen++
	case state.Whole():
		w.result.RunsWhole++
	case !w.young(state):
		w.result.RunsUnjudged++
	case slices.ContainsFunc(w.result.Broken, func(b BrokenRun) bool { return b.RunID == run }):
	default:
		w.result.RunsBroken++
		if len(w.result.Broken) == mostListed {
			return nil
		}
		gaps, err := source.Gaps(ctx, run)
		if err != nil {
			return err
		}
		w.result.Broken = append(w.result.Broken, BrokenRun{run, gaps, state.Ended})
	}
	return nil
}
