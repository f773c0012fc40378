package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// Comparison is what to compare.
type Comparison struct {
	Scans   []*docket.Source // read in parallel, each with a connection of its own
	Source  *docket.Source   // for everything else
	Copy    Copy
	Content bool // compare contents, not identities alone

	Position exporter.Position // the consumer's, as it was before Copy was opened
	Judged   exporter.Ranges   // of the ids that are done in it, those to compare
	Letters  map[int64]bool    // event ids of dead letters that are undecided or discarded

	Retention time.Duration // after which Docket prunes events; 0 for never
	Horizon   int64         // ids below it may have been pruned

	// Repair sends missing events again and says of which the sink did not take
	// why; nil leaves them missing.
	Repair func(context.Context, []Absent) ([]Refusal, error)

	Note func(Progress) // is told how far it is
}

// Progress is how far a comparison is.
type Progress struct {
	Phase    string // in words
	Done, Of int64  // of the phase
}

// Absent is an event that the sink lacks.
type Absent struct {
	exporter.Identity
	Bytes int64 // of its encoded payload and metadata
}

// Run compares. Its error says that one side could not be read, or that the
// source is not the known one.
func (c *Comparison) Run(ctx context.Context) (Result, error) {
	w := &work{Comparison: c, source: sums{}, sink: sums{}, runs: runs{}}
	if len(c.Judged) == 0 {
		return w.result, nil
	}
	if err := w.sumUp(ctx); err != nil {
		return w.result, err
	}
	groups := w.differing()
	for i, group := range groups {
		w.Note(Progress{"reading what differs again", int64(i), int64(len(groups))})
		if err := w.lookAgain(ctx, group); err != nil {
			return w.result, err
		}
	}
	w.Note(Progress{"looking at unfinished runs", 0, 0})
	err := w.judgeRuns(ctx)
	w.result.sort()
	return w.result, err
}

// work is a comparison under way.
type work struct {
	*Comparison
	mu     sync.Mutex // of what several scans add to
	source sums
	sink   sums
	runs   runs
	result Result
}

// hull is from the lowest to the highest id to compare.
func (w *work) hull() exporter.Range {
	return exporter.Range{Lo: w.Judged[0].Lo, Hi: w.Judged[len(w.Judged)-1].Hi}
}

func (w *work) judged(id int64) bool {
	if len(w.Judged) == 1 {
		return id >= w.Judged[0].Lo && id <= w.Judged[0].Hi
	}
	return w.Judged.Contains(id)
}

// sumUp reads both sides at the same time.
func (w *work) sumUp(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	spans := make(chan exporter.Range)
	g.Go(func() error { return w.Copy.Sum(ctx, w.Judged, shift, w.sink.add) })
	g.Go(func() error {
		defer close(spans)
		return w.feed(ctx, spans)
	})
	for _, scan := range w.Scans {
		g.Go(func() error {
			s := scanner{work: w, source: scan}
			s.event, s.run = w.Copy.Digester()
			pace := newPace()
			for span := range spans {
				if err := pace.each(span, func(ids exporter.Range) error { return s.sumUp(ctx, ids) }); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, s := range w.sink {
		w.result.Copies += s.rows
	}
	return nil
}

// feed sends the spans of ids in which the source has rows.
func (w *work) feed(ctx context.Context, spans chan<- exporter.Range) error {
	most := int64(identityIDs)
	if w.Content {
		most = rowIDs
	}
	rest, whole := w.hull(), w.hull()
	for rest.Lo <= rest.Hi {
		w.Note(Progress{"reading both sides", rest.Lo - whole.Lo, whole.Hi - whole.Lo + 1})
		id, found, err := w.Source.NextID(ctx, rest)
		if err != nil || !found {
			return err
		}
		span := exporter.Range{Lo: id, Hi: min(id|(most-1), rest.Hi)}
		select {
		case spans <- span:
		case <-ctx.Done():
			return ctx.Err()
		}
		if span.Hi == rest.Hi {
			return nil
		}
		rest.Lo = span.Hi + 1
	}
	return nil
}

// scanner sums up spans of the source.
type scanner struct {
	*work
	source     *docket.Source
	event, run func(*exporter.Event) uint64 // digests
}

// sumUp sums up one span.
func (s *scanner) sumUp(ctx context.Context, ids exporter.Range) error {
	found, runs, result := sums{}, runs{}, Result{}
	err := s.source.Scan(ctx, ids, s.Position, s.Content, func(row *docket.Scanned) error {
		if !s.judged(row.Event.ID) {
			return nil
		}
		seen := runs.see(row)
		if !row.Kept {
			result.Filtered++
			return nil
		}
		result.Events++
		window, digest := row.Event.ID>>shift, uint64(0)
		if row.Poison {
			result.Undecodable++ // its window differs, whatever the sink holds
		} else {
			digest = s.event(&row.Event)
			seen.compare(window)
		}
		found.add(window, 1, digest)
		return nil
	})
	if err == nil && s.run != nil {
		err = s.sumUpRuns(ctx, runs, found)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.source.merge(found)
	s.runs.merge(runs)
	s.forget(runs)
	s.result.Events += result.Events
	s.result.Filtered += result.Filtered
	s.result.Undecodable += result.Undecodable
	if len(s.runs) > mostRuns {
		return s.lookUpRuns(ctx, s.source)
	}
	return nil
}

// sumUpRuns adds the columns of the runs, each as often as it has events. The
// windows of a run that was deleted meanwhile differ.
func (s *scanner) sumUpRuns(ctx context.Context, runs runs, into sums) error {
	for some := range slices.Chunk(slices.Collect(maps.Keys(runs)), runsAtOnce) {
		err := s.source.RunColumns(ctx, some, func(run *exporter.Event) {
			digest := s.run(run)
			for _, w := range runs[run.RunID].windows {
				into.add(w.window, 0, digest*uint64(w.events))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// differing returns the windows whose sums differ, in spans of neighbours. A
// window in which the source has nothing, below the horizon, holds what Docket
// has pruned.
func (w *work) differing() []exporter.Range {
	windows := map[int64]bool{}
	for window, s := range w.source {
		if w.sink[window] != s {
			windows[window] = true
		}
	}
	for window, s := range w.sink {
		if _, any := w.source[window]; any {
			continue
		}
		if (window+1)<<shift <= w.Horizon {
			w.result.Unjudged += s.rows
		} else {
			windows[window] = true
		}
	}
	w.result.Windows = len(windows)
	var groups []exporter.Range
	hull := w.hull()
	for _, window := range slices.Sorted(maps.Keys(windows)) {
		lo, hi := max(window<<shift, hull.Lo), min((window+1)<<shift-1, hull.Hi)
		if n := len(groups) - 1; n >= 0 && groups[n].Hi+1 == lo && hi-groups[n].Lo < groupSpan {
			groups[n].Hi = hi
		} else {
			groups = append(groups, exporter.Range{Lo: lo, Hi: hi})
		}
	}
	return groups
}
