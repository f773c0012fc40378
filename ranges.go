package exporter

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// Range is the ids from Lo to Hi, both included.
type Range struct{ Lo, Hi int64 }

// Ranges is a set of ids: ascending, disjoint and not adjacent, so that equal
// sets are equal slices. The zero value is empty. No method but Append changes
// its operands; a result may share their arrays.
type Ranges []Range

// Contains reports whether id is in the set.
func (r Ranges) Contains(id int64) bool {
	i := sort.Search(len(r), func(i int) bool { return r[i].Hi >= id })
	return i < len(r) && r[i].Lo <= id
}

// Count returns the number of ids in the set, at most MaxInt64.
func (r Ranges) Count() int64 {
	n := int64(0)
	for _, x := range r {
		below := uint64(x.Hi) - uint64(x.Lo) // one less than the range has, which would not fit for all ids
		if below >= uint64(math.MaxInt64-n) {
			return math.MaxInt64
		}
		n += int64(below) + 1
	}
	return n
}

// Union returns the ids in r or in s.
func (r Ranges) Union(s Ranges) Ranges {
	if len(s) == 0 {
		return r
	}
	if len(r) == 0 {
		return s
	}
	out := make(Ranges, 0, len(r)+len(s))
	for len(r) > 0 || len(s) > 0 {
		var next Range
		if len(s) == 0 || len(r) > 0 && r[0].Lo <= s[0].Lo {
			next, r = r[0], r[1:]
		} else {
			next, s = s[0], s[1:]
		}
		out = out.Append(next)
	}
	return out
}

// Append adds a range that starts at or after every range already there. It
// may reuse r's array, as the built-in append does.
func (r Ranges) Append(x Range) Ranges {
	if n := len(r); n > 0 && (r[n-1].Hi == math.MaxInt64 || x.Lo <= r[n-1].Hi+1) {
		r[n-1].Hi = max(r[n-1].Hi, x.Hi)
		return r
	}
	return append(r, x)
}

// Intersect returns the ids in both r and s.
func (r Ranges) Intersect(s Ranges) Ranges {
	var out Ranges
	for len(r) > 0 && len(s) > 0 {
		if lo, hi := max(r[0].Lo, s[0].Lo), min(r[0].Hi, s[0].Hi); lo <= hi {
			out = append(out, Range{lo, hi})
		}
		if r[0].Hi < s[0].Hi {
			r = r[1:]
		} else {
			s = s[1:]
		}
	}
	return out
}

// Minus returns the ids in r that are not in s.
func (r Ranges) Minus(s Ranges) Ranges {
	if len(s) == 0 || len(r) == 0 {
		return r
	}
	var out Ranges
	for _, x := range r {
		for len(s) > 0 && s[0].Hi < x.Lo {
			s = s[1:]
		}
		rest, open := x, true
		for _, y := range s {
			if y.Lo > rest.Hi {
				break
			}
			if y.Lo > rest.Lo {
				out = append(out, Range{rest.Lo, y.Lo - 1})
			}
			if open = y.Hi < rest.Hi; !open {
				break
			}
			rest.Lo = y.Hi + 1
		}
		if open {
			out = append(out, rest)
		}
	}
	return out
}

// Newest returns the part of r at or above lo, cut to its n highest ranges.
func (r Ranges) Newest(lo int64, n int) Ranges {
	r = r.Intersect(Ranges{{lo, math.MaxInt64}})
	return r[max(0, len(r)-n):]
}

// String prints the set with both ends included: "{[3,3],[7,12]}".
func (r Ranges) String() string {
	b := []byte{'{'}
	for i, x := range r {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, x.Lo, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, x.Hi, 10)
		b = append(b, ']')
	}
	return string(append(b, '}'))
}

// ParseRanges reads what String prints, and PostgreSQL's canonical text of an
// int8multirange, whose upper ends are excluded: "{[3,4),[7,13)}".
func ParseRanges(s string) (Ranges, error) {
	body, ok := strings.CutPrefix(s, "{")
	if body, ok = cutSuffix(body, "}", ok); !ok {
		return nil, fmt.Errorf("parse ranges %q: want {[lo,hi],…}", s)
	}
	var out Ranges
	for body != "" {
		end := strings.IndexAny(body, "])")
		if end < 0 {
			return nil, fmt.Errorf("parse ranges %q: a range does not end", s)
		}
		x, err := parseRange(body[:end+1])
		if err != nil {
			return nil, fmt.Errorf("parse ranges %q: %w", s, err)
		}
		if n := len(out); n > 0 && out[n-1].Hi >= x.Lo {
			return nil, fmt.Errorf("parse ranges %q: ranges must ascend and not overlap", s)
		}
		out = out.Append(x)
		if body = body[end+1:]; body == "" {
			break
		}
		if body, ok = strings.CutPrefix(body, ","); !ok || body == "" {
			return nil, fmt.Errorf("parse ranges %q: want a comma between ranges", s)
		}
	}
	return out, nil
}

func parseRange(s string) (Range, error) {
	inner, ok := strings.CutPrefix(s[:len(s)-1], "[")
	lo, hi, comma := strings.Cut(inner, ",")
	from, err1 := strconv.ParseInt(lo, 10, 64)
	to, err2 := strconv.ParseInt(hi, 10, 64)
	excluded := s[len(s)-1] == ')'
	if !ok || !comma || err1 != nil || err2 != nil || from > to || excluded && from == to {
		return Range{}, fmt.Errorf("%q is not a range such as [120300,120302]", s)
	}
	if excluded {
		to--
	}
	return Range{from, to}, nil
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	rest, found := strings.CutSuffix(s, suffix)
	return rest, ok && found
}
