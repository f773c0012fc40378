package etf_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/sources/docket/etf"
)

func raw(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func render(t testing.TB, src []byte) string {
	t.Helper()
	var d etf.Decoder
	got, err := d.AppendJSON(nil, src)
	if err != nil {
		t.Fatalf("%v\n%x", err, src)
	}
	return string(got)
}

func TestValues(t *testing.T) {
	name := func(n int) []byte {
		return append([]byte{118, byte(n >> 8), byte(n)}, bytes.Repeat([]byte("é"), n/2)...)
	}
	floatText := func(s string) []byte { return append(append([]byte{99}, s...), make([]byte, 31-len(s))...) }
	for _, c := range []struct {
		name string
		term []byte
		want string
	}{
		{"latin1 atom", []byte{115, 3, 'c', 0xe9, 'e'}, `"cée"`},
		{"old latin1 atom", []byte{100, 0, 1, 0xff}, `"ÿ"`},
		{"latin1 true", []byte{100, 0, 4, 't', 'r', 'u', 'e'}, `true`},
		{"atom of 255 characters", name(510), `"` + strings.Repeat("é", 255) + `"`},
		{"empty atom", atom(""), `""`},
		{"large tuple", cat(u32(105, 1), integer(7)), `{"$tuple":[7]}`},
		{"large big", raw(t, "6f 00000009 00 000000000000000001"), `{"$int":"18446744073709551616"}`},
		{"large big with leading zeros", raw(t, "6f 0000000c 01 2a0000000000000000000000"), `-42`},
		{"small big, int64 max plus 1", raw(t, "6e 08 00 0000000000000080"), `{"$int":"9223372036854775808"}`},
		{"small big, int64 min", raw(t, "6e 08 01 0000000000000080"), `-9223372036854775808`},
		{"small big, int64 min minus 1", raw(t, "6e 08 01 0100000000000080"), `{"$int":"-9223372036854775809"}`},
		{"negative integer", integer(-1), `-1`},
		{"float text", floatText("1.50000000000000000000e+00"), `1.5`},
		{"float text without exponent", floatText("-2.25"), `-2.25`},
		{"list with a list as tail", raw(t, "6c 00000001 6101 6c 00000001 6102 6a"), `[1,2]`},
		{"list with a string as tail", raw(t, "6c 00000001 6101 6b 0002 0203"), `[1,2,3]`},
		{"empty list with a string as tail", raw(t, "6c 00000000 6b 0002 0203"), `[2,3]`},
		{"list, then empty list as tail", raw(t, "6c 00000001 6101 6c 00000000 6a"), `[1]`},
		{"whole bytes as bit string", raw(t, "4d 00000002 08 6869"), `"hi"`},
		{"empty bit string", raw(t, "4d 00000000 00"), `""`},
		{"control characters", bin("\x00\x1f\x7f\b\f\n\u2028"), "\"\\u0000\\u001f\x7f\\u0008\\u000c\\n\u2028\""},
		{"quote at each place", bin(`1234567"12345678\`), `"1234567\"12345678\\"`},
		{"atom key nil", mapOf(atom("nil"), integer(1)), `{"nil":1}`},
		{"atom key true", mapOf(atom("true"), integer(1)), `{"true":1}`},
		{"empty key", mapOf(bin(""), integer(1)), `{"":1}`},
		{"escaped key", mapOf(bin("a\"\n"), integer(1)), `{"a\"\n":1}`},
		{"colliding keys", mapOf(atom("a"), integer(1), bin("a"), integer(2)), `{"$map":[["a",1],["a",2]]}`},
		{"colliding keys, unsorted", mapOf(bin("a"), integer(1), bin("b"), integer(3), atom("a"), integer(2)), `{"$map":[["a",1],["b",3],["a",2]]}`},
		{"colliding latin1 key", mapOf([]byte{115, 1, 0xe9}, integer(1), bin("é"), integer(2)), `{"$map":[["é",1],["é",2]]}`},
		{"mixed keys that differ", mapOf(atom("a"), integer(1), bin("b"), integer(2)), `{"a":1,"b":2}`},
		{"dollar key", mapOf(bin("$int"), integer(1), bin("b"), integer(2)), `{"$map":[["$int",1],["b",2]]}`},
		{"dollar atom key", mapOf(atom("$x"), integer(1)), `{"$map":[["$x",1]]}`},
		{"literal keys of pairs", mapOf(integer(1), integer(2), atom("nil"), atom("true")), `{"$map":[[1,2],[null,true]]}`},
		{"number keys 1 and 1.0", mapOf(integer(1), integer(2), float(1), integer(3)), `{"$map":[[1,2],[1.0,3]]}`},
		{"number keys -0.0 and 0.0", mapOf(float(0), integer(2), float(math.Copysign(0, -1)), integer(3)), `{"$map":[[0.0,2],[-0.0,3]]}`},
		{"compound keys", mapOf(tuple(integer(2)), integer(1), list(), integer(2), tuple(integer(1)), integer(3)), `{"$map":[[{"$tuple":[2]},1],[[],2],[{"$tuple":[1]},3]]}`},
		{"DateTime as key", mapOf(clock{}.term(), integer(1)), `{"$map":[["2026-07-29T12:34:56Z",1]]}`},
		{
			"struct inside pairs inside a map", mapOf(bin("a"), mapOf(integer(1), mapSet(integer(3))), bin("b"), mapOf(bin("$"), clock{}.term())),
			`{"a":{"$map":[[1,{"$set":[3]}]]},"b":{"$map":[["$","2026-07-29T12:34:56Z"]]}}`,
		},
		{
			"set out of order", mapSet(bin("b"), integer(10), integer(9), float(9.5), bin("a"), atom("nil"), list(integer(1)), list(), tuple(integer(1))),
			`{"$set":[9,9.5,10,null,{"$tuple":[1]},[],[1],"a","b"]}`,
		},
		{"UTF-8 beside escapes", bin("日本語のテキスト\"\u00e9\\и так далее\n"), `"日本語のテキスト\"é\\и так далее\n"`},
		{"set in order", mapSet(integer(1), integer(2)), `{"$set":[1,2]}`},
		{"set of sets", mapSet(mapSet(bin("b"), bin("a")), clock{}.term()), `{"$set":[{"$set":["a","b"]},"2026-07-29T12:34:56Z"]}`},
		{"set with a version, unsorted fields", mapOf(atom("map"), mapOf(integer(1), raw(t, "6c000000006a")), atom("version"), integer(2), atom("__struct__"), atom("Elixir.MapSet")), `{"$set":[1]}`},
		{"struct with unsorted fields", mapOf(atom("op"), atom("and"), atom("__struct__"), atom("Elixir.Docket.Guard"), atom("args"), list(integer(1))), `{"$struct":"Docket.Guard","op":"and","args":[1]}`},
		{"map that looks like a set's", mapOf(integer(2), list(), integer(1), list()), `{"$map":[[2,[]],[1,[]]]}`},
		{"object that looks like a set's", mapOf(bin("b"), list(), bin("a"), list()), `{"b":[],"a":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := render(t, holding(c.term)), `{"v":`+c.want+`}`; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestFloats(t *testing.T) {
	tenth := 0.1
	for want, f := range map[string]float64{
		"0.0": 0, "-0.0": math.Copysign(0, -1), "1.0": 1, "0.1": 0.1, "100.0": 100, "123456.789": 123456.789,
		"1.0e3": 1000, "120.0": 120, "1.2e3": 1200, "1.0e22": 1e22, "1.0e300": 1e300, "5.0e-324": 5e-324, "2.5e-5": 2.5e-5, "0.001": 0.001, "1.0e-4": 1e-4,
		"0.0123": 0.0123, "9007199254740991.0": 1<<53 - 1, "9.007199254740992e15": 1 << 53, "-1.5": -1.5,
		"2.2250738585072014e-308": 2.2250738585072014e-308, "0.30000000000000004": tenth + 0.2,
	} {
		if got := render(t, holding(float(f))); got != `{"v":`+want+`}` {
			t.Errorf("%g: got %s, want %s", f, got, want)
		}
	}
}

func TestDateTimes(t *testing.T) {
	micro := func(n, precision int64) []byte { return tuple(integer(n), integer(precision)) }
	berlin := clock{}.with("time_zone", bin("Europe/Berlin"))
	for want, c := range map[string]clock{
		"2026-07-29T12:34:56Z":        {},
		"2026-07-29T12:34:56.000000Z": clock{}.with("microsecond", micro(0, 6)),
		"2026-07-29T12:34:56.0Z":      clock{}.with("microsecond", micro(9, 1)),
		"2026-07-29T12:34:56.123Z":    clock{}.with("microsecond", cat(u32(105, 2), integer(123456), integer(3))),
		"2026-07-29T12:34:56+00:00":   berlin,
		"2026-07-29T12:34:56+02:00":   berlin.with("utc_offset", integer(3600)).with("std_offset", integer(3600)),
		"2026-07-29T12:34:56-03:30":   berlin.with("utc_offset", integer(-12630)),
		"2026-07-29T12:34:56+01:00":   clock{}.with("utc_offset", integer(3600)),
		"-0044-03-15T12:34:56Z":       clock{}.with("year", integer(-44)).with("month", integer(3)).with("day", integer(15)),
		"0000-02-29T12:34:56Z":        clock{}.with("year", integer(0)).with("month", integer(2)),
		"9999-07-29T12:34:56Z":        clock{}.with("year", integer(9999)),
		"2026-07-29T12:34:07Z":        clock{}.with("second", raw(t, "6e 01 00 07")),
	} {
		if got := render(t, holding(c.term())); got != `{"v":"`+want+`"}` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	event := envelope(mapOf(bin("b"), mapOf(bin("a"), integer(1)), bin("a"), integer(2), atom("c"), list(integer(3))))
	pairs := envelope(mapOf(integer(1), integer(2), bin("a"), integer(2), bin("b"), mapOf()))
	for _, c := range []struct {
		src  []byte
		keys []string
		want string
	}{
		{event, nil, `{"b":{"a":1},"a":2,"c":[3]}`},
		{event, []string{}, `{}`},
		{event, []string{"a"}, `{"a":2}`},
		{event, []string{"c", "b", "missing"}, `{"b":{"a":1},"c":[3]}`},
		{pairs, []string{"b"}, `{"$map":[["b",{}]]}`},
		{envelope(mapOf(bin("$x"), mapSet(integer(1)))), []string{"$x"}, `{"$map":[["$x",{"$set":[1]}]]}`},
	} {
		d := etf.Decoder{Keys: c.keys}
		got, err := d.AppendJSON(nil, c.src)
		if err != nil || string(got) != c.want {
			t.Errorf("keys %q: got %s, %v, want %s", c.keys, got, err, c.want)
		}
	}
	d := etf.Decoder{Keys: []string{"a"}}
	got, err := d.AppendJSON(nil, envelope(mapOf(bin("a"), integer(1), bin("b"), raw(t, "46 7ff0000000000000"))))
	refused(t, got, err, 1<<10)
}
