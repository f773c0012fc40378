package main

import (
	"context"
	"fmt"
	"math"

	exporter "github.com/docket-exporter/exporter"
)

// span finds the ids to compare. Nothing between two places is a mistake in the
// flags that tell them, and nothing to compare for a consumer that has done
// nothing yet.
func (j *reconciliation) span(ctx context.Context) error {
	leftOut, err := j.store.LeftOut(ctx, j.status.UID)
	if err != nil {
		return err
	}
	from, to := exporter.Position{High: math.MinInt64}, j.status.Position
	begin, end := "where "+j.consumer.Name+" was created or set to", "its position "+shortPosition(to)
	if j.from != "" {
		leftOut = nil
		if from, err = j.place(ctx, "--from", j.from); err != nil {
			return err
		}
		begin = fmt.Sprintf("--from %s (%s)", shortened(j.from), shortPosition(from))
	}
	if j.to != "" {
		at, err := j.place(ctx, "--to", j.to)
		if err != nil {
			return err
		}
		if j.aboveTo = at.High < to.High; j.aboveTo {
			end = fmt.Sprintf("--to %s (%s)", shortened(j.to), shortPosition(at))
		}
		to = both(to, at)
	}
	j.judged, j.limit = to.Minus(from).Minus(leftOut), to.High
	idle := j.to == "" && from.High >= to.High // nothing has come since --from
	if len(j.judged) == 0 && !idle && (j.from != "" || j.to != "") {
		return usage(fmt.Errorf("there is nothing between %s and %s", begin, end))
	}
	return nil
}

// both is what is done in two positions.
func both(a, b exporter.Position) exporter.Position {
	p := exporter.Position{High: min(a.High, b.High)}
	return p.Reopen(a.Holes.Union(b.Holes))
}

// place finds the place that a flag tells.
func (j *reconciliation) place(ctx context.Context, flag, text string) (exporter.Position, error) {
	place, err := parsePlace(text)
	if err != nil {
		return exporter.Position{}, fmt.Errorf("%s: %w", flag, err)
	}
	at, err := findPlace(ctx, j.docket, j.config.Database, place)
	if err != nil {
		return at, fmt.Errorf("%s: %w", flag, err)
	}
	if !place.IsPosition() {
		at.Holes = nil // ids that were not there at this moment are looked at like the others
	}
	return at, nil
}

// countOutside counts copies of events that are not compared: those above the
// end, and all others.
func (j *reconciliation) countOutside(ctx context.Context, copies readable, report *reconcileReport) error {
	below := exporter.Ranges{{Lo: math.MinInt64, Hi: j.limit}}
	above, err := copies.Count(ctx, exporter.Ranges{{Lo: math.MinInt64, Hi: math.MaxInt64}}.Minus(below))
	if err != nil {
		return err
	}
	if j.aboveTo {
		report.AboveTo = above
	} else {
		report.AbovePosition = above
	}
	report.Outside, err = copies.Count(ctx, below.Minus(j.judged))
	return err
}
