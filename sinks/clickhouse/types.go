package clickhouse

import (
	"math"
	"strconv"
	"strings"
)

// columnType is a column's type as far as filling it needs.
type columnType struct {
	base     string // without wrappers and arguments: String, DateTime64…
	size     int    // argument of FixedString, in bytes
	nullable bool
	interned bool // LowCardinality
}

// parseType takes the server's text of a type apart. What it cannot, such as
// Array(String), keeps its name as base and is filled by nothing.
func parseType(text string) columnType {
	var t columnType
	for {
		name, rest, _ := strings.Cut(text, "(")
		inner := strings.TrimSuffix(rest, ")")
		switch name {
		case "Nullable":
			t.nullable, text = true, inner
		case "LowCardinality":
			t.interned, text = true, inner
		default:
			t.base = name
			if name == "FixedString" {
				t.size, _ = strconv.Atoi(inner) // the server's own number
			}
			return t
		}
	}
}

// integers are the bounds of the integer types that an int64 may go into.
func integers(base string) (low, high int64, ok bool) {
	switch base {
	case "Int8":
		return math.MinInt8, math.MaxInt8, true
	case "Int16":
		return math.MinInt16, math.MaxInt16, true
	case "Int32":
		return math.MinInt32, math.MaxInt32, true
	case "Int64":
		return math.MinInt64, math.MaxInt64, true
	case "UInt8":
		return 0, math.MaxUint8, true
	case "UInt16":
		return 0, math.MaxUint16, true
	case "UInt32":
		return 0, math.MaxUint32, true
	case "UInt64":
		return 0, math.MaxInt64, true
	}
	return 0, 0, false
}

// integer returns n as the Go type that the driver wants for base.
func integer(base string, n int64) any {
	switch base {
	case "Int8":
		return int8(n)
	case "Int16":
		return int16(n)
	case "Int32":
		return int32(n)
	case "UInt8":
		return uint8(n)
	case "UInt16":
		return uint16(n)
	case "UInt32":
		return uint32(n)
	case "UInt64":
		return uint64(n)
	}
	return n
}
