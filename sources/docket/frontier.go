package docket

import (
	"math"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// everyID is the limit of a holder that may own any id.
const everyID = math.MaxInt64

// maxBounds caps the evidence kept. Forgetting the oldest only delays a verdict.
const maxBounds = 256

// frontier is the evidence about ids that were handed out and are not visible.
// It is rebuilt from nothing at every start: a restart of the server renames
// transactions, so evidence does not outlive the server process it came from.
type frontier struct {
	bounds []bound           // ascending by max
	live   map[string]*owner // the holders of the last list, by virtual transaction
}

// bound says: when every one of holders is gone, each id up to max is either
// visible in a newer snapshot or dead.
type bound struct {
	max     int64
	wal     int64            // end of the WAL when max had been handed out
	holders map[string]int64 // virtual transaction → the highest id it may own
}

// owner is a transaction that holds the sequence.
type owner struct {
	exporter.Holder
	idle  bool
	stamp time.Time // when it became idle
	limit int64     // it drew no id above this one
}

// observation is one list of holders, with the sequence's value read in the
// same statement.
type observation struct {
	last    int64 // the highest id handed out
	holders []exporter.Holder
	at      time.Time // local clock, for people
}

// description is what the server tells of a holder.
type description struct {
	exporter.Holder
	idle  bool      // it is waiting for its client, or prepared
	stamp time.Time // since when
}

// observe takes in a newer list: holders that are not on it have ended.
func (f *frontier) observe(o observation) {
	live := make(map[string]*owner, len(o.holders))
	for _, h := range o.holders {
		w := f.live[h.Transaction]
		if w == nil {
			h.Since = o.at
			w = &owner{Holder: h, limit: everyID}
		}
		live[h.Transaction] = w
	}
	for _, b := range f.bounds {
		for tx := range b.holders {
			if live[tx] == nil {
				delete(b.holders, tx)
			}
		}
	}
	f.live = live
}

// describe takes in what the server tells of the holders, newer than the last
// list. A holder that has been idle since the description before drew nothing
// in between; last was read in between, so no id above it is the holder's,
// whatever evidence names it.
func (f *frontier) describe(told []description, last int64) {
	for _, d := range told {
		w := f.live[d.Transaction]
		if w == nil {
			continue
		}
		if d.idle && w.idle && w.stamp.Equal(d.stamp) {
			w.limit = min(w.limit, last)
		} else {
			w.idle, w.stamp, w.limit = d.idle, d.stamp, everyID
		}
		if since := w.Since; d.Since.IsZero() {
			d.Since = since
		}
		w.Holder = d.Holder
		for _, b := range f.bounds {
			if limit, waits := b.holders[d.Transaction]; waits {
				b.holders[d.Transaction] = min(limit, w.limit)
			}
		}
	}
}

// record adds the present holders as the evidence for every id up to max.
// The caller has seen that max was handed out before the last list was taken,
// and read wal, the end of the WAL, afterwards.
func (f *frontier) record(max, wal int64) {
	b := bound{max: max, wal: wal, holders: make(map[string]int64, len(f.live))}
	for tx := range f.live {
		b.holders[tx] = everyID // until a later description says that it was idle
	}
	kept := f.bounds[:0]
	for _, old := range f.bounds {
		if old.max > max || !b.settlesNoLaterThan(old) {
			kept = append(kept, old)
		}
	}
	f.bounds = kept
	i := len(f.bounds)
	for i > 0 && f.bounds[i-1].max > max {
		i--
	}
	f.bounds = append(f.bounds, bound{})
	copy(f.bounds[i+1:], f.bounds[i:])
	f.bounds[i] = b
	if n := len(f.bounds) - maxBounds; n > 0 {
		f.bounds = append(f.bounds[:0], f.bounds[n:]...)
	}
}

// settlesNoLaterThan reports whether b decides every id of old whenever old does.
func (b bound) settlesNoLaterThan(old bound) bool {
	for tx, limit := range b.holders {
		theirs, waits := old.holders[tx]
		if !waits || theirs < min(limit, old.max) {
			return false
		}
	}
	return true
}

// openUpTo returns the highest id of the bound that one of its holders may own.
func (b bound) openUpTo() int64 {
	open := int64(math.MinInt64)
	for _, limit := range b.holders {
		open = max(open, min(limit, b.max))
	}
	return open
}

// decided returns the ids about which snapshots taken after the last list are
// final: visible in them, or dead.
func (f *frontier) decided() exporter.Ranges {
	var all exporter.Ranges
	for _, b := range f.bounds {
		if open := b.openUpTo(); open < b.max {
			all = all.Union(exporter.Ranges{{Lo: max(open, math.MinInt64+1) + 1, Hi: b.max}})
		}
	}
	return all
}

// tail returns the highest id up to which ids above the last row may be passed:
// all are decided, and the sequence's step beyond them is on disk. An aborted
// transaction does not wait for the disk; after a crash of the server its ids
// would be handed out again.
func (f *frontier) tail(flushed int64) int64 {
	top := int64(math.MinInt64)
	for _, b := range f.bounds {
		if len(b.holders) == 0 && b.wal <= flushed {
			top = max(top, b.max)
		}
	}
	return top
}

// reaches reports whether there is evidence, settled or not, for all of ids.
func (f *frontier) reaches(ids exporter.Ranges) bool {
	return len(ids) == 0 || len(f.bounds) > 0 && f.bounds[len(f.bounds)-1].max >= ids[len(ids)-1].Hi
}

// blockers returns the holders that keep id open, by the earliest evidence.
// Without any evidence yet it is everybody on the last list.
func (f *frontier) blockers(id int64) []exporter.Holder {
	for _, b := range f.bounds {
		if b.max < id {
			continue
		}
		var holders []exporter.Holder
		for tx, limit := range b.holders {
			if w := f.live[tx]; w != nil && limit >= id {
				holders = append(holders, w.Holder)
			}
		}
		return holders
	}
	holders := make([]exporter.Holder, 0, len(f.live))
	for _, w := range f.live {
		holders = append(holders, w.Holder)
	}
	return holders
}

// reset forgets all evidence.
func (f *frontier) reset() { f.bounds, f.live = nil, nil }
