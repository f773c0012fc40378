package etf_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/docket-exporter/exporter/sources/docket/etf"
)

func TestRefused(t *testing.T) {
	floatText := func(s string) []byte { return append(append([]byte{99}, s...), make([]byte, 31-len(s))...) }
	schemaLess := mapOf(atom("__struct__"), atom("Elixir.Docket.Guard"), atom("op"), integer(1))
	for name, term := range map[string][]byte{
		"pid":                         raw(t, "58 7701 61 00000001 00000001 00000001"),
		"port":                        raw(t, "59 7701 61 00000001 00000001"),
		"atom cache reference":        raw(t, "52 00"),
		"nested version byte":         raw(t, "83 6101"),
		"nested compressed term":      raw(t, "50 00000002 789c"),
		"bit string":                  raw(t, "4d 00000001 03 a0"),
		"bit string of no bytes":      raw(t, "4d 00000000 08"),
		"improper list":               raw(t, "6c 00000001 6101 6102"),
		"improper list of none":       raw(t, "6c 00000000 6102"),
		"NaN":                         float(math.NaN()),
		"infinity":                    float(math.Inf(-1)),
		"float text with space":       floatText(" 1.0"),
		"float text without point":    floatText("1e5"),
		"float text hexadecimal":      floatText("0x1.0p3"),
		"float text infinite":         floatText("inf"),
		"float text too large":        floatText("1.0e999"),
		"float text with tail":        floatText("1.0e5x"),
		"latin1 atom too long":        append([]byte{100, 1, 0}, bytes.Repeat([]byte("a"), 256)...),
		"atom too long":               append([]byte{118, 2, 0}, bytes.Repeat([]byte("é"), 256)...),
		"atom not UTF-8":              {119, 2, 0xc3, 0x28},
		"same integer twice":          mapOf(integer(5), integer(1), raw(t, "6e 02 00 0500"), integer(2)),
		"same big integer twice":      mapOf(raw(t, "6e 09 00 000000000000000001"), integer(1), raw(t, "6f 0000000a 00 00000000000000000100"), integer(2)),
		"same atom twice":             mapOf(atom("a"), integer(1), []byte{100, 0, 1, 'a'}, integer(2)),
		"same latin1 atom twice":      mapOf([]byte{115, 1, 0xe9}, integer(1), atom("é"), integer(2)),
		"same float twice":            mapOf(float(1.5), integer(1), floatText("1.5"), integer(2)),
		"same list twice":             mapOf(list(integer(1), integer(2)), integer(1), raw(t, "6b 0002 0102"), integer(2)),
		"same tuple twice":            mapOf(tuple(bin("a")), integer(1), integer(0), integer(0), cat(u32(105, 1), bin("a")), integer(2)),
		"same map twice":              mapOf(mapOf(bin("a"), integer(1), bin("b"), list()), integer(1), mapOf(bin("b"), list(), bin("a"), integer(1)), integer(2)),
		"same binary twice, apart":    mapOf(bin("a"), integer(1), bin("b"), integer(1), bin("a"), integer(2)),
		"duplicate inside a key":      mapOf(mapOf(bin("a"), integer(1), bin("a"), integer(1)), integer(1)),
		"struct without module":       mapOf(atom("__struct__"), bin("Elixir.MapSet")),
		"foreign struct":              mapOf(atom("__struct__"), atom("Elixir.Date")),
		"struct missing a field":      schemaLess,
		"struct with another field":   mapOf(atom("__struct__"), atom("Elixir.Docket.Guard"), atom("op"), integer(1), atom("arg"), integer(1)),
		"struct with a text field":    mapOf(atom("__struct__"), atom("Elixir.Docket.Guard"), atom("op"), integer(1), bin("args"), integer(1)),
		"set of atoms":                mapSet(atom("a")),
		"set of tuples of atoms":      mapSet(tuple(atom("a"))),
		"set of structs":              mapSet(mapOf(atom("__struct__"), atom("Elixir.Docket.Guard"), atom("op"), integer(1), atom("args"), list())),
		"set with values":             mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("map"), mapOf(integer(1), integer(1))),
		"set of a list":               mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("map"), list()),
		"set of a set":                mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("map"), mapSet(integer(1))),
		"set with an extra field":     mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("map"), mapOf(), atom("size"), integer(0)),
		"set with an unknown version": mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("map"), mapOf(), atom("version"), integer(3)),
		"set without its map":         mapOf(atom("__struct__"), atom("Elixir.MapSet"), atom("version"), integer(2)),
		"29 February":                 clock{}.with("month", integer(2)).term(),
		"month 13":                    clock{}.with("month", integer(13)).term(),
		"day 0":                       clock{}.with("day", integer(0)).term(),
		"year 10000":                  clock{}.with("year", integer(10000)).term(),
		"hour 24":                     clock{}.with("hour", integer(24)).term(),
		"leap second":                 clock{}.with("second", integer(60)).term(),
		"precision 7":                 clock{}.with("microsecond", tuple(integer(0), integer(7))).term(),
		"microsecond 10^6":            clock{}.with("microsecond", tuple(integer(1e6), integer(6))).term(),
		"microsecond of three":        clock{}.with("microsecond", tuple(integer(1), integer(6), integer(0))).term(),
		"microsecond not a tuple":     clock{}.with("microsecond", integer(1)).term(),
		"float hour":                  clock{}.with("hour", float(1)).term(),
		"atom time zone":              clock{}.with("time_zone", atom("Etc/UTC")).term(),
		"other calendar":              clock{}.with("calendar", atom("Elixir.Calendar.Julian")).term(),
		"no offset":                   clock{}.with("utc_offset", atom("nil")).term(),
		"huge year":                   clock{}.with("year", raw(t, "6e 09 00 000000000000000001")).term(),
		"map larger than its bytes":   raw(t, "74 7fffffff 61"),
	} {
		t.Run(name, func(t *testing.T) {
			var d etf.Decoder
			src := holding(term)
			got, err := d.AppendJSON(nil, src)
			refused(t, got, err, len(src))
		})
	}
}

// Every prefix of a good term is refused, and every good term with a byte more.
func TestCutOff(t *testing.T) {
	var d etf.Decoder
	for _, f := range fixtures(t) {
		src := unhex(t, f.Hex)
		if !f.Valid || len(src) > 2000 {
			continue
		}
		for n := range src {
			got, err := d.AppendJSON(nil, src[:n:n])
			refused(t, got, err, n)
		}
		got, err := d.AppendJSON(nil, append(src, 0))
		refused(t, got, err, len(src)+1)
	}
}

func TestVersions(t *testing.T) {
	head := func(arity byte, parts ...[]byte) []byte { return cat([]byte{131, 104, arity}, cat(parts...)) }
	docket, event := atom("docket"), atom("event")
	for _, c := range []struct {
		name    string
		src     []byte
		version string // "" for a syntax error
	}{
		{"2", head(4, docket, integer(2), event, mapOf()), "2"},
		{"0", head(4, docket, integer(0), event, mapOf()), "0"},
		{"-1", head(4, docket, integer(-1), event, mapOf()), "-1"},
		{"large", head(4, docket, raw(t, "6e 09 00 000000000000000001"), event, mapOf()), "18446744073709551616"},
		{"other arity", head(5, docket, integer(2), event, mapOf(), mapOf()), "2"},
		{"other event", head(4, docket, integer(2), event, bin("opaque")), "2"},
		{"other kind", head(4, docket, integer(3), atom("event_batch"), mapOf()), "3"},
		{"old atoms", head(4, raw(t, "64 0006 646f636b6574"), integer(2), raw(t, "73 05 6576656e74"), mapOf()), "2"},
		{"large tuple", cat([]byte{131}, u32(105, 4), docket, integer(2), event, mapOf()), "2"},
		{"1 of five", head(5, docket, integer(1), event, mapOf(), mapOf()), ""},
		{"1 of another kind", head(4, docket, integer(1), atom("run"), mapOf()), ""},
		{"2 of another name", head(4, atom("pocket"), integer(2), event, mapOf()), ""},
		{"2 of two", head(2, docket, integer(2)), ""},
		{"2 without a kind", head(4, docket, integer(2), bin("event"), mapOf()), ""},
		{"2.0", head(4, docket, float(2), event, mapOf()), ""},
		{"none", head(0), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d etf.Decoder
			got, err := d.AppendJSON(nil, c.src)
			if c.version == "" {
				refused(t, got, err, len(c.src))
				return
			}
			v, ok := errors.AsType[*etf.VersionError](err)
			if !ok || v.Version != c.version || v.Offset < 1 || v.Offset >= len(c.src) || len(got) > 0 {
				t.Errorf("got %#v, %s", err, got)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	nest := func(n int) []byte {
		return cat(bytes.Repeat(u32(108, 1), n), integer(1), bytes.Repeat([]byte{106}, n))
	}
	for _, c := range []struct {
		d    etf.Decoder
		term []byte
		ok   bool
	}{
		{etf.Decoder{}, nest(999), true},
		{etf.Decoder{}, nest(1000), false},
		{etf.Decoder{}, nest(100_000), false},
		{etf.Decoder{}, bytes.Repeat(u32(108, 1), 100_000), false},
		{etf.Decoder{}, bytes.Repeat([]byte{104, 1}, 100_000), false},
		{etf.Decoder{}, bytes.Repeat(u32(116, 1), 100_000), false},
		{etf.Decoder{MaxDepth: 3}, nest(2), true},
		{etf.Decoder{MaxDepth: 3}, nest(3), false},
		{etf.Decoder{MaxBytes: 20}, bin("123456789012"), true}, // {"v":"123456789012"}
		{etf.Decoder{MaxBytes: 19}, bin("123456789012"), false},
		{etf.Decoder{MaxBytes: 100}, list(bytes.Split(bytes.Repeat([]byte{106}, 1000), nil)...), false},
		{etf.Decoder{MaxBytes: 100}, mapSet(bin("\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"), integer(4)), false},
		{etf.Decoder{MaxBytes: 10}, clock{}.term(), false},
		{etf.Decoder{MaxBytes: 10}, mapOf(integer(1), tuple(bin("a")), integer(2), tuple(bin("bbbbbbbbbbbb"))), false},
	} {
		src := holding(c.term)
		got, err := c.d.AppendJSON(nil, src)
		if !c.ok {
			refused(t, got, err, len(src))
		} else if err != nil {
			t.Errorf("%d bytes: %v", len(src), err)
		}
	}
}
