package docket

import (
	"context"
	"fmt"
	"math"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/retention"
)

// LossRule says when ids that were dropped may be events which Docket's pruner
// deleted before they were read. Without Options.Retention none are.
type LossRule struct {
	Effective func() time.Duration // what the table showed of it lately, as in retention.Verdict; nil or 0 for the told one
	ReadAt    time.Time            // of the exporter.State the consumer starts from; zero calls nothing below the first poll's head a loss
	HoleAge   time.Duration        // of that State
	Wait      bool                 // take nothing behind ids of which it is not known yet whether they are lost
}

const (
	// maxLost bounds the ranges of one loss; the rest is found by the next poll.
	maxLost = 1000
	// maxSuspects bounds the ranges that wait for the look at their neighbours.
	maxSuspects = 1000
	// suspectEvery is the least time between looks at ids that were dropped
	// while the position was fresh: most of them were rolled back.
	suspectEvery = time.Second
)

// losses judges the ids that a source drops. It keeps for every id that is not
// done the time up to which the source had been read when the id was first
// known to be handed out: what it stood for was inserted later than that. Ages
// are on the server's clock.
type losses struct {
	LossRule
	told  time.Duration // Options.Retention
	began bool
	trail []readMark // ascending; how far which position has read
	spans []span     // ascending

	suspects exporter.Ranges // dropped while fresh, and not looked at yet
	looked   time.Time
	waiting  time.Time // since when nothing is taken; zero while something is
}

// readMark says that at a position with this High everything inserted before
// at has been read, but for open ids.
type readMark struct {
	high int64
	at   time.Time
}

// span is the ids up to hi and above the span before: what they stand for was
// inserted after since, which is zero where nothing is known.
type span struct {
	hi    int64
	since time.Time
}

// enter forgets what the position has passed and returns the time up to which
// it has read.
func (l *losses) enter(from exporter.Position, now time.Time) time.Time {
	if !l.began {
		l.began = true
		l.noteRead(math.MinInt64, l.ReadAt)
		if len(from.Holes) > 0 {
			since := l.ReadAt
			if opened := now.Add(-l.HoleAge); l.HoleAge > 0 && opened.Before(since) {
				since = opened
			}
			l.spans = append(l.spans, span{from.High, since})
		}
	}
	for len(l.trail) > 1 && l.trail[1].high <= from.High {
		l.trail = l.trail[1:]
	}
	l.forget(from)
	if len(l.trail) > 0 && l.trail[0].high <= from.High {
		return l.trail[0].at
	}
	return time.Time{}
}

// noteRead keeps up to when a position has read; zero is not known.
func (l *losses) noteRead(high int64, at time.Time) {
	if at.IsZero() || l.told <= 0 {
		return
	}
	if n := len(l.trail); n > 0 && l.trail[n-1].high >= high {
		last := &l.trail[n-1]
		if last.high == high && at.After(last.at) {
			last.at = at
		}
		return
	}
	l.trail = append(l.trail, readMark{high, at})
}

// forget drops the spans without an open id.
func (l *losses) forget(from exporter.Position) {
	low := from.High + 1
	if len(from.Holes) > 0 {
		low = from.Holes[0].Lo
	}
	for len(l.spans) > 0 && l.spans[0].hi < low {
		l.spans = l.spans[1:]
	}
	if len(l.spans) < 64 {
		return
	}
	var kept []span
	prev := int64(math.MinInt64)
	for _, s := range l.spans {
		if s.hi > from.High || len(from.Holes.Intersect(exporter.Ranges{{Lo: prev + 1, Hi: s.hi}})) > 0 {
			kept = append(kept, s)
		}
		prev = s.hi
	}
	l.spans = kept
}

// noteSpan keeps that the ids up to hi were handed out when a position had
// been read up to since. Spans closer than a hundredth of the retention are one.
func (l *losses) noteSpan(hi int64, since time.Time) {
	n := len(l.spans)
	if n > 0 && l.spans[n-1].hi >= hi {
		return
	}
	if n > 0 && l.spans[n-1].since.IsZero() == since.IsZero() && since.Sub(l.spans[n-1].since) < l.told/100 {
		l.spans[n-1].hi = hi
		return
	}
	l.spans = append(l.spans, span{hi, since})
}

// each calls f with the parts of ids that have the same since; above the spans
// that is readAt.
func (l *losses) each(ids exporter.Ranges, readAt time.Time, f func(ids exporter.Ranges, since time.Time)) {
	low := int64(math.MinInt64)
	for _, s := range append(l.spans[:len(l.spans):len(l.spans)], span{math.MaxInt64, readAt}) {
		if low <= s.hi {
			if part := ids.Intersect(exporter.Ranges{{Lo: low, Hi: s.hi}}); len(part) > 0 {
				f(part, s.since)
			}
		}
		if s.hi == math.MaxInt64 {
			return
		}
		low = s.hi + 1
	}
}

// reached returns those of ids that a retention may have reached whose horizon
// is given, and since when what they stood for was inserted.
func (l *losses) reached(ids exporter.Ranges, readAt, horizon time.Time) (old exporter.Ranges, since time.Time) {
	if len(ids) == 0 {
		return nil, since
	}
	l.each(ids, readAt, func(part exporter.Ranges, inserted time.Time) {
		if inserted.IsZero() || inserted.After(horizon) {
			return
		}
		old = old.Union(part)
		if since.IsZero() || inserted.Before(since) {
			since = inserted
		}
	})
	return old, since
}

// effective returns the retention to expect without a look at the table.
func (l *losses) effective() time.Duration {
	if l.Effective != nil {
		if d := l.Effective(); d > 0 {
			return min(d, l.told)
		}
	}
	return l.told
}

// suspect keeps ids for the next look at their neighbours.
func (l *losses) suspect(ids exporter.Ranges) {
	if len(ids) > 0 {
		l.suspects = l.suspects.Union(ids)
		if n := len(l.suspects); n > maxSuspects {
			l.suspects = l.suspects[n-maxSuspects:]
		}
	}
}

// isDue reports whether suspects are to be looked at.
func (l *losses) isDue() bool { return len(l.suspects) > 0 && time.Since(l.looked) >= suspectEvery }

// judgeLosses looks at what a poll drops. While the position is fresh it only
// compares times in memory, but for one look a second at the rows behind ids
// that were dropped. It reports whether the batch must wait.
func (s *Source) judgeLosses(ctx context.Context, t *tx, b *exporter.Batch, before *surroundings, cut bool) (wait bool, err error) {
	l := &s.losses
	if l.told <= 0 {
		return false, nil
	}
	readAt := l.enter(b.From, before.now)
	defer func() {
		if err == nil && !wait {
			l.noteRead(b.To.High, b.ReadAt)
		}
		if err == nil && cut {
			l.noteSpan(b.To.High, readAt)
		} else if err == nil {
			l.noteSpan(max(b.To.High, before.last), readAt)
		}
	}()
	horizon := before.now.Add(-l.effective())
	old, _ := l.reached(b.Dead, readAt, horizon)
	l.suspect(b.Dead.Minus(old))
	var open exporter.Ranges
	if l.Wait {
		open, _ = l.reached(b.To.Holes.Minus(b.From.Holes), readAt, horizon)
	}
	if len(old) == 0 && len(open) == 0 && !l.isDue() {
		return false, nil
	}
	look := look{wide: len(old) > 0}
	if err := t.run(ctx, indexesOnly, s.table.sightStatement(l.told, &look.sight)); err != nil {
		return false, err
	}
	verdict := retention.Judge(retention.Policy{Events: l.told}, look.sight)
	if verdict.Mismatch == retention.Agrees {
		verdict.Effective = l.effective()
	}
	horizon = look.sight.Now.Add(-verdict.Effective)
	if open, _ = l.reached(open, readAt, horizon); len(open) > 0 {
		if l.waiting.IsZero() {
			l.waiting = time.Now()
		}
		return true, s.describe(ctx, t, b, exporter.Hole{Range: exporter.Range{Lo: open[0].Lo, Hi: open[len(open)-1].Hi}, Since: l.waiting})
	}
	l.waiting = time.Time{}
	old, look.since = l.reached(b.Dead, readAt, horizon)
	l.suspect(b.Dead.Minus(old)) // also those that the told retention had reached
	if len(old) > maxLost {
		old = old[:maxLost]
	}
	look.ids, look.horizon = old.Union(l.suspects), horizon
	if err := s.prove(ctx, t, &look); err != nil {
		return false, err
	}
	l.suspects, l.looked = nil, time.Now()
	b.Losses = look.losses(old, verdict)
	return false, nil
}

// losses makes the records of what a look has found: one of the ids that the
// retention may have reached, one of others that are proven.
func (k *look) losses(old exporter.Ranges, v retention.Verdict) []exporter.Loss {
	var out []exporter.Loss
	if len(old) > 0 {
		loss := lossOf(old, k.runsBehind(old))
		loss.Runs = append(loss.Runs, k.vanished...)
		loss.Certain = len(loss.Runs) > 0
		loss.Since, loss.Until = k.since, k.horizon
		if loss.Until.Before(loss.Since) {
			loss.Until = loss.Since
		}
		kept := "events are kept for " + retention.Format(v.Events)
		if v.Effective != v.Events {
			kept = fmt.Sprintf("the oldest event is %s old, against a RETENTION_EVENTS of %s", retention.Format(v.Effective), retention.Format(v.Events))
		}
		loss.Reason = fmt.Sprintf("%s gone: they had been read only up to %s ago, and %s", idsText(loss.IDs),
			retention.Format(k.sight.Now.Sub(k.since)), kept)
		out = append(out, loss)
	}
	rest := k.gaps().Minus(old)
	if len(rest) > 0 {
		loss := lossOf(rest, k.runsBehind(rest))
		loss.Certain = true
		loss.Reason = fmt.Sprintf("%s gone: a run behind them lacks events that are younger than %s, so they were deleted before their time",
			idsText(loss.IDs), retention.Format(v.Effective))
		out = append(out, loss)
	}
	return out
}

func lossOf(ids exporter.Ranges, runs []exporter.LostRun) exporter.Loss {
	return exporter.Loss{
		Kind: exporter.LossPruned, IDs: exporter.Range{Lo: ids[0].Lo, Hi: ids[len(ids)-1].Hi}, Exactly: ids, Count: ids.Count(), Runs: runs,
	}
}

func idsText(r exporter.Range) string {
	if r.Lo == r.Hi {
		return fmt.Sprintf("id %d is", r.Lo)
	}
	return fmt.Sprintf("ids %d to %d are", r.Lo, r.Hi)
}
