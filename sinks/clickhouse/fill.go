package clickhouse

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/column"

	"github.com/docket-exporter/exporter"
)

// fill appends an event's value to a column. A misfit says why the value does
// not fit; any other error of the driver means the same and may hold the value.
type fill func(column.Interface, *exporter.Event) error

// misfit says why a value does not fit its column.
type misfit string

func (m misfit) Error() string { return string(m) }

// filler returns how a column of type t takes the field; nil when it cannot.
// The driver is given pointers into the event, which need no allocation; it
// copies at once.
func filler(f field, t columnType) fill {
	switch {
	case f.text != nil:
		return textFiller(f, t)
	case f.number != nil:
		return numberFiller(f, t)
	case f.json != nil:
		return jsonFiller(f, t)
	default:
		return instantFiller(f, t)
	}
}

func textFiller(f field, t columnType) fill {
	if t.base != "String" && t.base != "FixedString" {
		return nil
	}
	if t.base == "FixedString" && t.size <= 0 {
		return nil
	}
	// A dictionary is keyed by what it is given, so it wants the text itself.
	boxed := map[string]any{}
	var last any = "" // most columns repeat within a run
	return func(c column.Interface, e *exporter.Event) error {
		text := f.text(e)
		switch {
		case text == nil && t.nullable:
			return c.AppendRow(nil)
		case text == nil && t.base == "FixedString":
			return c.AppendRow(make([]byte, t.size))
		case text == nil:
			return c.AppendRow("")
		case t.base == "FixedString":
			return appendFixed(c, *text, t.size)
		case !t.interned:
			return c.AppendRow(text)
		}
		if last.(string) == *text {
			return c.AppendRow(last)
		}
		value, known := boxed[*text]
		if !known {
			if len(boxed) >= maxBoxed {
				clear(boxed)
			}
			value = strings.Clone(*text) // it shares its memory with the rest of the row
			boxed[value.(string)] = value
		}
		last = value
		return c.AppendRow(value)
	}
}

// maxBoxed bounds the texts that are kept between batches.
const maxBoxed = 1000

func appendFixed(c column.Interface, text string, size int) error {
	if len(text) > size {
		return misfit(fmt.Sprintf("a text of %d bytes is longer than %d", len(text), size))
	}
	padded := make([]byte, size)
	copy(padded, text)
	return c.AppendRow(padded)
}

func numberFiller(f field, t columnType) fill {
	low, high, ok := integers(t.base)
	switch {
	case t.base == "String":
		return func(c column.Interface, e *exporter.Event) error {
			return c.AppendRow(strconv.FormatInt(f.number(e), 10))
		}
	case !ok:
		return nil
	}
	return func(c column.Interface, e *exporter.Event) error {
		n := f.number(e)
		if n < low || n > high {
			return misfit("the number is outside of " + t.base)
		}
		return c.AppendRow(integer(t.base, n))
	}
}

func jsonFiller(f field, t columnType) fill {
	if t.base != "String" && t.base != "JSON" {
		return nil
	}
	absent := "null"
	if t.base == "JSON" {
		absent = "{}" // the type holds objects only
	}
	return func(c column.Interface, e *exporter.Event) error {
		value := f.json(e)
		switch {
		case len(*value) == 0 && t.nullable:
			return c.AppendRow(nil)
		case len(*value) == 0:
			return c.AppendRow(absent)
		case t.base == "JSON":
			return c.AppendRow(json.RawMessage(*value))
		}
		return c.AppendRow(value)
	}
}

// instantText is the form of a timestamp in a String column.
const instantText = "2006-01-02T15:04:05.000000Z"

func instantFiller(f field, t columnType) fill {
	var earliest, latest time.Time // what the type holds; the server wraps around silently
	switch t.base {
	case "DateTime":
		earliest, latest = time.Unix(0, 0), time.Unix(1<<32-1, 0)
	case "DateTime64":
		earliest, latest = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
	case "String":
		return func(c column.Interface, e *exporter.Event) error {
			return c.AppendRow(f.instant(e).UTC().Format(instantText))
		}
	default:
		return nil
	}
	return func(c column.Interface, e *exporter.Event) error {
		instant := f.instant(e)
		if instant.Before(earliest) || instant.After(latest) {
			return misfit("the time is outside of " + t.base)
		}
		return c.AppendRow(instant)
	}
}
