package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docket-exporter/exporter/cursor"
)

// speedSpan is over which the speed is taken.
const speedSpan = time.Minute

// share is how much of a backfill is done, by the distance of ids. Ids are not
// events: some were never used, some are pruned and some are left out by the
// filter; it is taken that they lie evenly.
func share(below int64, b *cursor.BackfillStatus) float64 {
	whole := float64(b.Until.High) - float64(below)
	switch {
	case b.Position.Covers(b.Until) || whole <= 0:
		return 1
	case b.Position.High <= below:
		return 0
	}
	return min((float64(b.Position.High)-float64(below))/whole, 0.999)
}

func percentOf(below int64, b *cursor.BackfillStatus) string {
	return fmt.Sprintf("%.1f %%", 100*share(below, b))
}

// speedometer takes the speed of a backfill over the last minute.
type speedometer struct{ seen []reading }

type reading struct {
	at     time.Time
	share  float64
	events int64
}

// add notes a reading and returns the events a second and the time that is
// left; negative while that is not known.
func (m *speedometer) add(now reading) (rate float64, left time.Duration) {
	m.seen = append(m.seen, now)
	for len(m.seen) > 2 && now.at.Sub(m.seen[1].at) >= speedSpan {
		m.seen = m.seen[1:]
	}
	first := m.seen[0]
	took := now.at.Sub(first.at).Seconds()
	if took <= 0 {
		return 0, -1
	}
	rate = float64(now.events-first.events) / took
	if done := now.share - first.share; done > 0 {
		return rate, time.Duration(min((1-now.share)/done*took, math.MaxInt32) * float64(time.Second))
	}
	return rate, -1
}

// showProgress shows how far a backfill is, until stop is called.
func showProgress(ctx context.Context, p *process, x *backfiller) (stop func()) {
	bar := progressBar{backfiller: x, liveLine: newLiveLine(p)}
	return bar.keep(ctx, bar.show)
}

type progressBar struct {
	*backfiller
	liveLine
	meter speedometer
	why   string // what the last line said it waits for
}

// show prints one state. The events are those that are recorded, of all who
// have worked on it.
func (r *progressBar) show(ctx context.Context) {
	b, err := r.store.Backfill(ctx, r.name)
	if ctx.Err() != nil {
		return
	}
	line, why := "", ""
	if err != nil {
		line, why = "how far the backfill is cannot be read: "+oneLine(err.Error()), "unreadable"
	} else {
		why = r.trouble(&b)
		line = r.line(&b, why, time.Now())
	}
	r.print(line, (why == "") != (r.why == ""))
	r.why = why
}

func (r *progressBar) line(b *cursor.BackfillStatus, why string, now time.Time) string {
	done := share(r.spec.Below, b)
	rate, left := r.meter.add(reading{now, done, b.EventsAccepted})
	text := fmt.Sprintf("%s  %5.1f %%  %s", b.Name, 100*done, eventsOf(b.EventsAccepted, done))
	if len(r.meter.seen) > 1 {
		text += fmt.Sprintf("  %.0f/s", rate)
	}
	if left >= 0 && done < 1 {
		text += "  " + left.Round(time.Second).String() + " left"
	}
	if why != "" {
		text += "  waits: " + oneLine(why)
	}
	if bar := drawn(done) + " "; r.terminal && utf8.RuneCountInString(bar+text) < r.width() {
		text = bar + text
	}
	return text
}

// trouble is why nothing moves at the moment.
func (r *progressBar) trouble(b *cursor.BackfillStatus) string {
	if why := r.pressure.reason(); why != "" {
		return why
	}
	if now := r.health.of(r.name); now.Err != nil {
		return now.Err.Error()
	}
	if b.Owner != "" && b.Owner != r.config.Exporter.Replica && b.LeaseLive {
		return fmt.Sprintf("the lease of %s runs until %s", b.Owner, stamp(b.LeaseUntil))
	}
	if open := b.Position.Holes.Intersect(b.Until.Minus(b.Position)); b.Position.High >= b.Until.High && len(open) > 0 {
		return fmt.Sprintf("open ids %s may still appear", shortened(open.String()))
	}
	return ""
}

// eventsOf names the events that were sent, and about how many there are.
func eventsOf(sent int64, done float64) string {
	if done <= 0 || done >= 1 {
		return plural(sent, "event")
	}
	return fmt.Sprintf("%d of about %d events", sent, roughly(float64(sent)/done))
}

// roughly keeps two digits of a guess.
func roughly(n float64) int64 {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(max(n, 1)))-1))
	return int64(math.Round(n/unit) * unit)
}

// drawn is a bar of twenty characters.
func drawn(done float64) string {
	const width = 20
	full := int(done * width)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
