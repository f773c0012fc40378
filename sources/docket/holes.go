package docket

import (
	"context"
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// noteHoles keeps when each open range was first seen, for people.
func (s *Source) noteHoles(b *exporter.Batch) {
	now := time.Now()
	noted := make([]exporter.Hole, len(b.To.Holes))
	i := 0
	for n, r := range b.To.Holes {
		for i < len(s.since) && s.since[i].Hi < r.Lo {
			i++
		}
		noted[n] = exporter.Hole{Range: r, Since: now}
		if i < len(s.since) && s.since[i].Lo <= r.Lo {
			noted[n].Since = s.since[i].Since
		}
	}
	s.since = noted
}

// describeOldest names those who keep the oldest of the open ids open.
func (s *Source) describeOldest(ctx context.Context, t *tx, b *exporter.Batch) error {
	if len(s.since) == 0 {
		return nil
	}
	return s.describe(ctx, t, b, slices.MinFunc(s.since, func(x, y exporter.Hole) int { return x.Since.Compare(y.Since) }))
}

// describe asks who keeps ids open, once they have been open for a while, and
// names them in the batch.
func (s *Source) describe(ctx context.Context, t *tx, b *exporter.Batch, oldest exporter.Hole) error {
	if now := time.Now(); now.Sub(oldest.Since) >= s.patience && now.Sub(s.described) >= s.patience {
		var told []description
		if err := t.run(ctx, s.table.descriptionStatement(&told)); err != nil {
			return err
		}
		s.frontier.describe(told, s.around.last)
		s.described = now
		if len(b.To.Holes.Intersect(s.frontier.decided())) > 0 {
			b.More = true // the next poll settles them
		}
	}
	oldest.Holders = s.frontier.blockers(oldest.Lo)
	b.Blocked = []exporter.Hole{oldest}
	return nil
}

// rangesOf returns the set of ids; it sorts its argument.
func rangesOf(ids []int64) exporter.Ranges {
	slices.Sort(ids)
	var out exporter.Ranges
	for _, id := range ids {
		out = out.Append(exporter.Range{Lo: id, Hi: id})
	}
	return out
}
