package main

import (
	"fmt"
	"math"
)

// bar is a consumer on the line of time, from what Docket has deleted, over
// the horizon and the cursor, to the newest event. Places are in percent of
// the line's length, as texts for SVG.
type bar struct {
	Known   bool   // where the cursor is
	Horizon string // empty where nothing is deleted, or that is unknown
	Cursor  string
	Waiting string // length from the cursor to the newest event
	Late    string // length from the cursor to a horizon that has passed it; empty where it has not
	Label   string // for those who do not see it
	Left    string // below the left end
	Right   string // below the right end
}

const (
	beyond    = 1.05 // how much of the line lies beyond the horizon, so that it is seen
	leastBar  = 0.7  // shortest length of events that wait, in percent
	leastSpan = 60.0 // seconds on a line without a horizon
)

// barOf places a consumer.
func barOf(r *consumerReport, kept retentionReport) bar {
	b := bar{Right: "newest event"}
	if r.Head != nil {
		b.Right = "newest id " + grouped(*r.Head)
	}
	length := leastSpan
	if kept.Told != nil {
		length = *kept.Told * beyond
		b.Left = "deleted after " + rough(*kept.Told)
	} else if kept.None {
		b.Left = "kept for ever"
	}
	if r.LagSeconds == nil {
		b.Label = "How far the cursor is behind the newest event is unknown."
		return b
	}
	age := max(*r.LagSeconds, 0)
	length = max(length, age*beyond)
	place := func(age float64) float64 { return 100 * (1 - age/length) }
	cursor := place(age)
	if age > 0 {
		cursor = min(cursor, 100-leastBar)
	}
	b.Known, b.Cursor, b.Waiting = true, percent(cursor), percent(100-cursor)
	b.Label = "The cursor is at the newest event."
	if age > 0 {
		b.Label = fmt.Sprintf("The cursor is %s behind the newest event.", rough(age))
	}
	if kept.Told == nil {
		return b
	}
	horizon := place(*kept.Told)
	b.Horizon = percent(horizon)
	if age > *kept.Told {
		b.Late = percent(horizon - cursor)
		b.Label += fmt.Sprintf(" Docket may have deleted events before it for %s.", rough(age-*kept.Told))
	} else {
		b.Label += fmt.Sprintf(" Docket deletes what is %s old, which leaves %s.", rough(*kept.Told), rough(*kept.Told-age))
	}
	return b
}

func percent(v float64) string { return fmt.Sprintf("%.2f%%", math.Min(math.Max(v, 0), 100)) }
