package docketsim

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Tags of the Erlang external term format, as OTP's "External Term Format"
// defines them.
const (
	etfVersion      = 131
	tagNewFloat     = 70
	tagSmallInteger = 97
	tagInteger      = 98
	tagSmallTuple   = 104
	tagNil          = 106
	tagList         = 108
	tagBinary       = 109
	tagSmallBig     = 110
	tagMap          = 116
	tagSmallAtom    = 119
)

// EncodeEvent encodes a payload or metadata map as Docket stores it: the
// external term {docket, 1, event, map} with keys in Erlang's order. Values
// are string and []byte (binaries), integers, float64, bool, nil, []string,
// []any and map[string]any; any other type is a mistake in the caller and
// panics.
func EncodeEvent(values map[string]any) []byte {
	b := make([]byte, 0, 128)
	b = append(b, etfVersion, tagSmallTuple, 4)
	b = appendAtom(b, "docket")
	b = append(b, tagSmallInteger, 1)
	b = appendAtom(b, "event")
	return appendMap(b, values)
}

func appendTerm(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return appendAtom(b, "nil")
	case bool:
		return appendAtom(b, fmt.Sprint(v))
	case int:
		return appendInteger(b, int64(v))
	case int32:
		return appendInteger(b, int64(v))
	case int64:
		return appendInteger(b, v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, tagNewFloat), math.Float64bits(v))
	case string:
		return append(appendLength(append(b, tagBinary), len(v)), v...)
	case []byte:
		return append(appendLength(append(b, tagBinary), len(v)), v...)
	case []string:
		return appendList(b, v)
	case []any:
		return appendList(b, v)
	case map[string]any:
		return appendMap(b, v)
	default:
		panic(fmt.Sprintf("docketsim: no event term for %T", value))
	}
}

func appendAtom(b []byte, name string) []byte {
	return append(append(b, tagSmallAtom, byte(len(name))), name...)
}

func appendLength(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// appendInteger picks the tag that Erlang would: one byte, 32 bits, or a
// magnitude in little-endian bytes.
func appendInteger(b []byte, v int64) []byte {
	switch {
	case v >= 0 && v <= math.MaxUint8:
		return append(b, tagSmallInteger, byte(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		return binary.BigEndian.AppendUint32(append(b, tagInteger), uint32(v))
	}
	sign, magnitude := byte(0), uint64(v)
	if v < 0 {
		sign, magnitude = 1, -magnitude
	}
	var digits []byte
	for ; magnitude > 0; magnitude >>= 8 {
		digits = append(digits, byte(magnitude))
	}
	return append(append(b, tagSmallBig, byte(len(digits)), sign), digits...)
}

func appendList[T any](b []byte, items []T) []byte {
	if len(items) == 0 {
		return append(b, tagNil)
	}
	b = appendLength(append(b, tagList), len(items))
	for _, item := range items {
		b = appendTerm(b, item)
	}
	return append(b, tagNil)
}

func appendMap(b []byte, values map[string]any) []byte {
	b = appendLength(append(b, tagMap), len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		b = appendTerm(b, key)
		b = appendTerm(b, values[key])
	}
	return b
}
