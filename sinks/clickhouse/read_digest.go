package clickhouse

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-faster/city"

	exporter "github.com/docket-exporter/exporter"
)

// expression is a column as one text, computed by the server and by us. An
// absent value is a text that no event has.
type expression struct {
	column string
	sql    string
	text   func(dst []byte, e *exporter.Event) []byte
}

// absent stands for NULL: PostgreSQL's texts hold no zero byte.
const (
	absent    = "\x00"
	absentSQL = `'\0'`
)

// express returns the text of a field in a column; ok is false where the server
// does not keep what was sent.
func express(f field, c tableColumn) (x expression, ok bool) {
	t := parseType(c.typ)
	column := "`" + c.name + "`"
	switch {
	case t.base == "JSON":
		return x, false
	case t.base == "FixedString":
		x.sql = "toStringCutToZero(" + column + ")"
	case t.base == "String":
		x.sql = column
	case t.base == "DateTime":
		x.sql = "toString(toUnixTimestamp(" + column + "))"
	case t.base == "DateTime64":
		x.sql = "toString(toUnixTimestamp64Micro(" + column + "))"
	default:
		x.sql = "toString(" + column + ")"
	}
	if t.nullable {
		x.sql = "ifNull(" + x.sql + ", " + absentSQL + ")"
	}
	x.text = textOf(f, t, precision(c.typ))
	return x, true
}

// textOf is the same text, of what filler puts into the column.
func textOf(f field, t columnType, unit int64) func([]byte, *exporter.Event) []byte {
	missing := ""
	if t.nullable {
		missing = absent
	}
	switch {
	case f.text != nil:
		return func(dst []byte, e *exporter.Event) []byte {
			if text := f.text(e); text != nil {
				return append(dst, *text...)
			}
			return append(dst, missing...)
		}
	case f.number != nil:
		return func(dst []byte, e *exporter.Event) []byte { return strconv.AppendInt(dst, f.number(e), 10) }
	case f.json != nil:
		if !t.nullable {
			missing = "null"
		}
		return func(dst []byte, e *exporter.Event) []byte {
			if value := f.json(e); len(*value) > 0 {
				return append(dst, *value...)
			}
			return append(dst, missing...)
		}
	case t.base == "String":
		return func(dst []byte, e *exporter.Event) []byte { return f.instant(e).UTC().AppendFormat(dst, instantText) }
	case t.base == "DateTime":
		return func(dst []byte, e *exporter.Event) []byte { return strconv.AppendInt(dst, f.instant(e).Unix(), 10) }
	default:
		return func(dst []byte, e *exporter.Event) []byte {
			us := f.instant(e).UnixMicro()
			return strconv.AppendInt(dst, us-us%unit, 10)
		}
	}
}

// precision returns how many microseconds a DateTime64 tells apart, such as
// 1000 for DateTime64(3, 'UTC').
func precision(typ string) int64 {
	_, rest, found := strings.Cut(typ, "DateTime64(")
	if !found || rest == "" || rest[0] > '6' || rest[0] < '0' {
		return 1
	}
	unit := int64(time.Second / time.Microsecond)
	for range rest[0] - '0' {
		unit /= 10
	}
	return unit
}

// cityHash is ClickHouse's cityHash64 of one text.
func cityHash(text []byte) uint64 { return city.CH64(text) }

// combine is how cityHash64 takes a further argument in.
func combine(sum, next uint64) uint64 {
	const mul = 0x9ddfea08eb382d69
	a := (sum ^ next) * mul
	a ^= a >> 47
	b := (next ^ a) * mul
	b ^= b >> 47
	return b * mul
}
