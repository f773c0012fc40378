package exporter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Position says which event ids are done: every id up to High except those in
// Holes. The zero value is the beginning: nothing with a positive id is done.
//
// A Position is a value; no method changes its receiver or the slices behind it.
type Position struct {
	High  int64
	Holes Ranges // all at or below High
}

// Contains reports whether id is done.
func (p Position) Contains(id int64) bool { return id <= p.High && !p.Holes.Contains(id) }

// Covers reports whether everything done in q is done in p.
func (p Position) Covers(q Position) bool { return len(q.Minus(p)) == 0 }

// Equal reports whether p and q are the same: High and the open ids below it.
func (p Position) Equal(q Position) bool {
	return p.High == q.High && slices.Equal(p.Holes, q.Holes)
}

// Advance returns the position with High moved up to high; of the ids passed
// over, those in open stay open. A high at or below High changes nothing.
func (p Position) Advance(high int64, open Ranges) Position {
	if high <= p.High {
		return p
	}
	fresh := open.Intersect(Ranges{{p.High + 1, high}})
	return Position{High: high, Holes: p.Holes.Union(fresh)}
}

// Fill returns the position with ids, where they were holes, done.
func (p Position) Fill(ids Ranges) Position {
	return Position{High: p.High, Holes: p.Holes.Minus(ids)}
}

// Reopen returns the position with ids, where they were done, open again.
func (p Position) Reopen(ids Ranges) Position {
	return Position{High: p.High, Holes: p.Holes.Union(ids.Intersect(Ranges{{math.MinInt64, p.High}}))}
}

// Minus returns the ids that are done in p and not in q. It is the id set of
// the batch that leads from q to p.
func (p Position) Minus(q Position) Ranges {
	ids := q.Holes.Intersect(Ranges{{math.MinInt64, p.High}})
	if p.High > q.High {
		ids = ids.Union(Ranges{{q.High + 1, p.High}})
	}
	return ids.Minus(p.Holes)
}

// String prints the position as "120345" or "120345-{[120300,120302]}".
func (p Position) String() string {
	if len(p.Holes) == 0 {
		return strconv.FormatInt(p.High, 10)
	}
	return strconv.FormatInt(p.High, 10) + "-" + p.Holes.String()
}

// ParsePosition reads what String prints.
func ParsePosition(s string) (Position, error) {
	digits, holes, found := s, "", false
	if i := strings.Index(s, "-{"); i >= 0 {
		digits, holes, found = s[:i], s[i+1:], true
	}
	high, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("parse position %q: want an id such as 120345, or an id with open ranges such as 120345-{[120300,120302]}", s)
	}
	p := Position{High: high}
	if !found {
		return p, nil
	}
	if p.Holes, err = ParseRanges(holes); err != nil {
		return Position{}, fmt.Errorf("parse position %q: %w", s, err)
	}
	if n := len(p.Holes); n > 0 && p.Holes[n-1].Hi > high {
		return Position{}, fmt.Errorf("parse position %q: open id %d lies above %d", s, p.Holes[n-1].Hi, high)
	}
	return p, nil
}
