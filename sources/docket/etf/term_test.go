package etf_test

import (
	"encoding/binary"
	"math"
)

// A small encoder for tests: each function returns the bytes of a term.

func cat(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func u32(tag byte, n int) []byte { return binary.BigEndian.AppendUint32([]byte{tag}, uint32(n)) }

func atom(name string) []byte { return append([]byte{119, byte(len(name))}, name...) }
func bin(text string) []byte  { return append(u32(109, len(text)), text...) }
func float(f float64) []byte {
	return binary.BigEndian.AppendUint64([]byte{70}, math.Float64bits(f))
}

func integer(n int64) []byte {
	if n >= 0 && n < 256 {
		return []byte{97, byte(n)}
	}
	if n == int64(int32(n)) {
		return u32(98, int(uint32(n)))
	}
	sign, mag := byte(0), uint64(n)
	if n < 0 {
		sign, mag = 1, -mag
	}
	return binary.LittleEndian.AppendUint64([]byte{110, 8, sign}, mag)
}

func tuple(elements ...[]byte) []byte {
	return append([]byte{104, byte(len(elements))}, cat(elements...)...)
}

func list(elements ...[]byte) []byte {
	if len(elements) == 0 {
		return []byte{106}
	}
	return append(append(u32(108, len(elements)), cat(elements...)...), 106)
}

// mapOf takes keys and values in turn.
func mapOf(entries ...[]byte) []byte {
	return append(u32(116, len(entries)/2), cat(entries...)...)
}

func mapSet(members ...[]byte) []byte {
	var entries [][]byte
	for _, m := range members {
		entries = append(entries, m, list())
	}
	return mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("map"), mapOf(entries...))
}

// envelope wraps an event's map.
func envelope(event []byte) []byte {
	return cat([]byte{131}, tuple(atom("docket"), integer(1), atom("event"), event))
}

// holding is the envelope of #{<<"v">> => term}.
func holding(term []byte) []byte { return envelope(mapOf(bin("v"), term)) }

// clock describes a DateTime; the zero value is 2026-07-29T12:34:56Z.
type clock struct{ fields map[string][]byte }

func (c clock) with(name string, term []byte) clock {
	fields := map[string][]byte{name: term}
	for k, v := range c.fields {
		if k != name {
			fields[k] = v
		}
	}
	return clock{fields}
}

func (c clock) term() []byte {
	entries := [][]byte{}
	for _, f := range []struct {
		name string
		term []byte
	}{
		{"__struct__", atom("Elixir.DateTime")},
		{"calendar", atom("Elixir.Calendar.ISO")},
		{"day", integer(29)},
		{"hour", integer(12)},
		{"microsecond", tuple(integer(0), integer(0))},
		{"minute", integer(34)},
		{"month", integer(7)},
		{"second", integer(56)},
		{"std_offset", integer(0)},
		{"time_zone", bin("Etc/UTC")},
		{"utc_offset", integer(0)},
		{"year", integer(2026)},
		{"zone_abbr", bin("UTC")},
	} {
		if other, changed := c.fields[f.name]; changed {
			f.term = other
		}
		entries = append(entries, atom(f.name), f.term)
	}
	return mapOf(entries...)
}
