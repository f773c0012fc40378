package docket

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// topRow is the row of the highest id of a page: an event, or what is known of
// one that the filter drops, whose payload and metadata are not fetched.
type topRow struct {
	event  int // index in page.rows or, when it is poison, in page.poison
	poison bool
	bare   bool
	copy   exporter.Event // when bare, without its texts
	run    []byte
	kind   []byte
}

// keep remembers a row that the filter drops.
func (t *topRow) keep(v [][]byte) {
	t.bare = true
	t.run, t.kind = append(t.run[:0], v[3]...), append(t.kind[:0], v[5]...)
	t.copy.ID, t.copy.Seq = int8At(v[0]), int8At(v[4])
	t.copy.OccurredAt, t.copy.InsertedAt = finiteAt(v[13]), finiteAt(v[14])
}

// mark is what the source can be known by after this page: its row of the
// highest id. It is nil unless that is above high, the ids that were read before.
func (p *page) mark(high int64) *exporter.Mark {
	e := p.topEvent()
	if e == nil || e.ID <= high {
		return nil
	}
	return &exporter.Mark{Identity: e.Identity(), Hash: contentHash(e, !p.top.bare), InsertedAt: e.InsertedAt}
}

// topEvent is the row of the highest id; nil without one.
func (p *page) topEvent() *exporter.Event {
	switch {
	case len(p.ids) == 0:
		return nil
	case p.top.bare:
		p.top.copy.RunID, p.top.copy.Type = string(p.top.run), string(p.top.kind)
		return &p.top.copy
	case p.top.poison:
		return &p.poison[p.top.event].Event
	default:
		return &p.rows[p.top.event]
	}
}

// contentHash covers a row; of one that the filter drops all but payload and
// metadata. Rows of different content have different hashes, whatever has been
// done to the ids.
func contentHash(e *exporter.Event, whole bool) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	bytes := func(b []byte) {
		number(int64(len(b)))
		h.Write(b)
	}
	number(e.Seq)
	number(e.OccurredAt.UnixMicro())
	number(e.InsertedAt.UnixMicro())
	bytes([]byte(e.RunID))
	bytes([]byte(e.Type))
	if whole {
		bytes(e.EncodedPayload)
		bytes(e.EncodedMetadata)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// finiteAt is the zero time for infinity, which no time.Time is.
func finiteAt(v []byte) time.Time {
	if us := int8At(v); us == math.MaxInt64 || us == math.MinInt64 {
		return time.Time{}
	}
	return timeAt(v)
}

// readAt says up to when everything has been read once the page is done: the
// server's time before its snapshot when nothing was left out, else that of the
// last row, which an application's clock may have put into the future.
func (p *page) readAt(high int64, all bool, now time.Time) time.Time {
	if all {
		return now
	}
	if e := p.topEvent(); e != nil && e.ID > high && e.InsertedAt.Before(now) {
		return e.InsertedAt
	}
	return time.Time{}
}
