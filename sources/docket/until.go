package docket

import (
	"context"
	"slices"

	exporter "github.com/docket-exporter/exporter"
)

// Until is a Source with an end, a position that is fixed before the first
// poll. It reads what is done in the end and not in the position it is asked
// for; every other id is left as it is. So an id that is open in the end is
// never read here, whether or not it has appeared meanwhile: it belongs to
// whoever goes on from the end. A reader up to a position and another one from
// it read every event exactly once between them.
type Until struct {
	*Source
	end exporter.Position
}

var _ exporter.Source = (*Until)(nil)

// NewUntil returns s with an end. s must not be used otherwise.
func NewUntil(s *Source, end exporter.Position) *Until { return &Until{Source: s, end: end} }

// Limit changes the most rows of a page. It is called between two polls.
func (u *Until) Limit(events int) { u.limits.Events = max(1, events) }

// Poll implements exporter.Source. A position that covers the end yields an
// empty batch without a read. While ids below the end are open that are done
// in it, they are waited for as always.
func (u *Until) Poll(ctx context.Context, from exporter.Position) (exporter.Batch, error) {
	wanted := u.end.Minus(from)
	if len(wanted) == 0 {
		return exporter.Batch{From: from, To: from}, nil
	}
	if from.High >= u.end.High { // only open ids are left: read no more rows than they can be
		limit := u.limits.Events
		u.limits.Events = int(min(int64(limit), wanted.Count()))
		defer func() { u.limits.Events = limit }()
	}
	b, err := u.Source.Poll(ctx, from.Fill(from.Holes.Minus(wanted)))
	if err != nil {
		return b, err
	}
	u.trim(&b, from, wanted)
	return b, nil
}

// trim leaves in a batch what is wanted of it: the last page may go beyond the
// end, and any page may hold rows of ids that are open there.
func (u *Until) trim(b *exporter.Batch, from exporter.Position, wanted exporter.Ranges) {
	read := b.To.Minus(b.From)
	beyond := b.To.High > u.end.High
	high := max(from.High, min(b.To.High, u.end.High))
	b.From = from
	b.To = from.Advance(high, exporter.Ranges{{Lo: from.High + 1, Hi: max(high, from.High+1)}}).Fill(read.Intersect(wanted))
	b.Losses = lossesWithin(b.Losses, wanted)
	b.Blocked = slices.DeleteFunc(b.Blocked, func(h exporter.Hole) bool {
		return len(exporter.Ranges{h.Range}.Intersect(wanted)) == 0
	})
	kept := b.To.Minus(from)
	if slices.Equal(kept, read) {
		return
	}
	b.Dead = b.Dead.Intersect(kept)
	b.Events = slices.DeleteFunc(b.Events, func(e exporter.Event) bool { return !kept.Contains(e.ID) })
	b.Poison = slices.DeleteFunc(b.Poison, func(r exporter.Rejection) bool { return !kept.Contains(r.Event.ID) })
	b.Bytes = encodedBytes(b)
	if b.Rows > 0 {
		b.Rows = 0
		for _, id := range u.memory[u.turn].ids {
			if kept.Contains(id) {
				b.Rows++
			}
		}
	}
	if beyond {
		b.More = false
		if b.Mark != nil && b.Mark.EventID > u.end.High {
			b.Mark = nil
		}
	}
}

func encodedBytes(b *exporter.Batch) (n int64) {
	for i := range b.Events {
		n += int64(len(b.Events[i].EncodedPayload) + len(b.Events[i].EncodedMetadata))
	}
	for i := range b.Poison {
		n += int64(len(b.Poison[i].Event.EncodedPayload) + len(b.Poison[i].Event.EncodedMetadata))
	}
	return n
}

// lossesWithin cuts losses to the ids that are wanted.
func lossesWithin(losses []exporter.Loss, wanted exporter.Ranges) (within []exporter.Loss) {
	for _, l := range losses {
		if l.Exactly = l.Exactly.Intersect(wanted); len(l.Exactly) == 0 {
			continue
		}
		l.IDs = exporter.Range{Lo: l.Exactly[0].Lo, Hi: l.Exactly[len(l.Exactly)-1].Hi}
		l.Count = min(l.Count, l.Exactly.Count())
		within = append(within, l)
	}
	return within
}
