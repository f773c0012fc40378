package verdict

import (
	"context"
	"fmt"

	exporter "github.com/docket-exporter/exporter"
)

// maxExamples bounds Result.Examples.
const maxExamples = 5

// Result is how the files compare with the table.
type Result struct {
	Events     int // rows of the table
	Missing    int // rows that are in no file
	OutOfOrder int // first lines of a row that come after one of its run with a higher seq
	Duplicated int // lines of a row after its first
	Extra      int // lines of events that the table does not have

	Examples []string // the first few of what is wrong, in words
}

// Clean reports whether the files hold the table's events, in order, each once.
func (r Result) Clean() bool { return r.Complete() && r.Duplicated == 0 }

// Complete reports whether the files hold the table's events, in order, and no
// others: what at-least-once delivery promises.
func (r Result) Complete() bool { return r.Missing == 0 && r.OutOfOrder == 0 && r.Extra == 0 }

// String is the verdict in one line.
func (r Result) String() string {
	text := fmt.Sprintf("%d events, %d missing, %d out of order, %d duplicated", r.Events, r.Missing, r.OutOfOrder, r.Duplicated)
	if r.Extra > 0 {
		text += fmt.Sprintf(", %d not in the table", r.Extra)
	}
	return text
}

// Read compares the events of a Docket schema that keep selects (nil: all)
// with the files of a consumer.
func Read(ctx context.Context, db Queryer, schema string, keep func(Row) bool, dir, consumer string) (Result, error) {
	rows, err := Table(ctx, db, schema, keep)
	if err != nil {
		return Result{}, err
	}
	lines, err := Files(dir, consumer)
	if err != nil {
		return Result{}, err
	}
	return Compare(rows, lines), nil
}

// Compare judges lines, in the order they were written, against the rows.
func Compare(rows []Row, lines []Line) Result {
	r := Result{Events: len(rows)}
	seen := make(map[exporter.Identity]bool, len(rows)) // by row: has it been written?
	for i := range rows {
		seen[rows[i].Identity] = false
	}
	highest := map[string]int64{} // seq by run, among first lines
	for i := range lines {
		r.line(&lines[i], seen, highest)
	}
	for i := range rows {
		if !seen[rows[i].Identity] {
			r.Missing++
			r.example("missing: %s/%d, event %d", rows[i].RunID, rows[i].Seq, rows[i].EventID)
		}
	}
	return r
}

// line judges the next line. A second line of a row says nothing about order:
// it is a repetition, which at-least-once delivery allows.
func (r *Result) line(l *Line, seen map[exporter.Identity]bool, highest map[string]int64) {
	before, known := seen[l.Identity]
	switch {
	case !known:
		r.Extra++
		r.example("not in the table: %s/%d, event %d in %s:%d", l.RunID, l.Seq, l.EventID, l.File, l.Number)
		return
	case before:
		r.Duplicated++
		r.example("duplicated: %s/%d, event %d in %s:%d", l.RunID, l.Seq, l.EventID, l.File, l.Number)
		return
	}
	seen[l.Identity] = true
	if top := highest[l.RunID]; l.Seq < top {
		r.OutOfOrder++
		r.example("out of order: %s/%d, event %d in %s:%d, after seq %d", l.RunID, l.Seq, l.EventID, l.File, l.Number, top)
		return
	}
	highest[l.RunID] = l.Seq
}

func (r *Result) example(format string, args ...any) {
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}
