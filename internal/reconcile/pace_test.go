package reconcile

import (
	"errors"
	"fmt"
	"testing"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// What takes too long is read in smaller pieces, all of it once; what is too
// long however little is asked for is an error soon.
func TestPace(t *testing.T) {
	var read exporter.Ranges
	calls := 0
	longest := func(most int64) func(exporter.Range) error {
		return func(ids exporter.Range) error {
			if calls++; ids.Hi-ids.Lo >= most {
				return fmt.Errorf("read: %w", docket.ErrScanTooLong)
			}
			if len(read.Intersect(exporter.Ranges{ids})) > 0 {
				t.Errorf("%v was read twice", ids)
			}
			read = read.Append(ids)
			return nil
		}
	}
	p := newPace()
	for _, ids := range []exporter.Range{{Lo: 1, Hi: 16_384}, {Lo: 16_385, Hi: 20_000}} {
		if err := p.each(ids, longest(300)); err != nil {
			t.Fatal(err)
		}
	}
	if read.String() != "{[1,20000]}" || calls > 100 {
		t.Errorf("read %v with %d calls", read, calls)
	}
	calls = 0
	if err := newPace().each(exporter.Range{Lo: 1, Hi: 16_384}, longest(1)); !errors.Is(err, docket.ErrScanTooLong) || calls > 12 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// Runs are whole when all their rows were seen, in any order.
func TestRunsAreWhole(t *testing.T) {
	w := &work{runs: runs{}}
	row := func(run string, seq int64, last bool) *docket.Scanned {
		r := &docket.Scanned{Terminal: last}
		r.Event.RunID, r.Event.Seq = run, seq
		return r
	}
	for _, part := range [][]*docket.Scanned{
		{row("whole", 3, true), row("gap", 1, false), row("open", 1, false)},
		{row("whole", 1, false), row("gap", 3, true), row("open", 2, false), row("headless", 2, true)},
		{row("whole", 2, false)},
	} {
		seen := runs{}
		for _, r := range part {
			seen.see(r)
		}
		w.runs.merge(seen)
		w.forget(seen)
	}
	if w.result.RunsWhole != 1 || len(w.runs) != 3 {
		t.Errorf("%d whole, left are %v", w.result.RunsWhole, w.runs)
	}
}
