package etf_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// sample is a random term in one of its encodings, and what is expected of it.
// same identifies the Erlang term, however it is encoded.
type sample struct {
	etf, json []byte
	same      string
	text      *string // of atoms and binaries that may be object keys
}

func quoted(s string) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return []byte(strings.TrimSpace(b.String()))
}

func drawBinary(t *rapid.T) sample {
	b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
	if rapid.Bool().Draw(t, "text") {
		b = []byte(rapid.StringN(0, 12, -1).Draw(t, "string"))
	}
	s := sample{etf: bin(string(b)), same: "b" + string(b)}
	if len(b) > 0 && rapid.IntRange(0, 9).Draw(t, "as bits") == 0 {
		s.etf = append(append(u32(77, len(b)), 8), b...)
	}
	if text := string(b); utf8.Valid(b) {
		s.json, s.text = quoted(text), &text
	} else {
		s.json = []byte(`{"$bytes":"` + base64.StdEncoding.EncodeToString(b) + `"}`)
	}
	return s
}

func drawAtom(t *rapid.T) sample {
	name := rapid.SampledFrom([]string{"true", "false", "nil", "a", "b", "é", "ÿes", "日本", "$x", ""}).Draw(t, "atom")
	s := sample{json: quoted(name), same: "a" + name, text: &name}
	if literal, ok := map[string]string{"true": "true", "false": "false", "nil": "null"}[name]; ok {
		s.json = []byte(literal)
	}
	var latin []byte
	for _, r := range name {
		if r > 255 {
			latin = nil
			break
		}
		latin = append(latin, byte(r))
	}
	switch kind := rapid.IntRange(0, 3).Draw(t, "atom encoding"); {
	case kind == 0 && len(latin) > 0:
		s.etf = append([]byte{115, byte(len(latin))}, latin...)
	case kind == 1 && len(latin) > 0:
		s.etf = append([]byte{100, 0, byte(len(latin))}, latin...)
	case kind == 2:
		s.etf = append([]byte{118, 0, byte(len(name))}, name...)
	default:
		s.etf = atom(name)
	}
	return s
}

func drawInteger(t *rapid.T) sample {
	v := big.NewInt(rapid.Int64().Draw(t, "integer"))
	if rapid.Bool().Draw(t, "small") {
		v.SetInt64(int64(rapid.IntRange(-3, 300).Draw(t, "small integer")))
	}
	v.Lsh(v, rapid.SampledFrom([]uint{0, 0, 1, 64, 200}).Draw(t, "shift"))
	s := sample{same: "i" + v.String(), json: []byte(v.String())}
	if !v.IsInt64() {
		s.json = []byte(`{"$int":"` + v.String() + `"}`)
	} else if rapid.Bool().Draw(t, "usual") {
		s.etf = integer(v.Int64())
		return s
	}
	mag, sign := v.Bytes(), byte(0)
	slices.Reverse(mag)
	mag = append(mag, make([]byte, rapid.IntRange(0, 2).Draw(t, "zeros"))...)
	if v.Sign() < 0 {
		sign = 1
	}
	s.etf = append([]byte{110, byte(len(mag)), sign}, mag...)
	if rapid.Bool().Draw(t, "large") {
		s.etf = append(append(u32(111, len(mag)), sign), mag...)
	}
	return s
}

func drawFloat(t *rapid.T) sample {
	f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 10, 0.1, 1e300, 5e-324})).Draw(t, "float")
	return sample{etf: float(f), same: fmt.Sprintf("f%x", f), json: []byte(strconv.FormatFloat(f, 'g', -1, 64))}
}

func draw(t *rapid.T, depth int) sample {
	kinds := []func(*rapid.T) sample{drawBinary, drawAtom, drawInteger, drawFloat}
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	switch {
	case kind < len(kinds):
		return kinds[kind](t)
	case depth == 0:
		return drawBinary(t)
	case kind == 4:
		return drawTuple(t, depth)
	case kind == 5:
		return drawList(t, depth)
	}
	return drawMap(t, depth)
}

func drawSome(t *rapid.T, depth int) (etf [][]byte, texts, ids []string) {
	for range rapid.IntRange(0, 4).Draw(t, "length") {
		s := draw(t, depth-1)
		etf, texts, ids = append(etf, s.etf), append(texts, string(s.json)), append(ids, strconv.Quote(s.same))
	}
	return etf, texts, ids
}

func drawTuple(t *rapid.T, depth int) sample {
	terms, texts, ids := drawSome(t, depth)
	s := sample{etf: tuple(terms...), json: []byte(`{"$tuple":[` + strings.Join(texts, ",") + `]}`), same: "t(" + strings.Join(ids, ",") + ")"}
	if rapid.Bool().Draw(t, "large") {
		s.etf = append(u32(105, len(terms)), cat(terms...)...)
	}
	return s
}

func drawList(t *rapid.T, depth int) sample {
	terms, texts, ids := drawSome(t, depth)
	tail := []byte{106}
	for _, b := range rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "string") {
		if len(tail) == 1 {
			tail = []byte{107, 0, 0}
		}
		tail[2]++
		tail = append(tail, b)
		texts, ids = append(texts, strconv.Itoa(int(b))), append(ids, strconv.Quote("i"+strconv.Itoa(int(b))))
	}
	s := sample{etf: tail, json: []byte("[" + strings.Join(texts, ",") + "]"), same: "l(" + strings.Join(ids, ",") + ")"}
	for _, term := range slices.Backward(terms) {
		if rapid.Bool().Draw(t, "split") || s.etf[0] != 108 {
			s.etf = cat(u32(108, 1), term, s.etf)
		} else {
			binary.BigEndian.PutUint32(s.etf[1:], binary.BigEndian.Uint32(s.etf[1:])+1)
			s.etf = cat(s.etf[:5], term, s.etf[5:])
		}
	}
	return s
}

func drawMap(t *rapid.T, depth int) sample {
	var keys, values []sample
	seen := map[string]bool{}
	texts := map[string]bool{}
	object := true
	for range rapid.IntRange(0, 5).Draw(t, "size") {
		k := draw(t, depth-1)
		if seen[k.same] {
			continue
		}
		seen[k.same] = true
		keys, values = append(keys, k), append(values, draw(t, depth-1))
		if k.text == nil || texts[*k.text] || strings.HasPrefix(*k.text, "$") {
			object = false
			continue
		}
		texts[*k.text] = true
	}
	var entries [][]byte
	var members, ids []string
	for i, k := range keys {
		entries = append(entries, k.etf, values[i].etf)
		ids = append(ids, strconv.Quote(k.same)+"=>"+strconv.Quote(values[i].same))
		if object {
			members = append(members, string(quoted(*k.text))+":"+string(values[i].json))
		} else {
			members = append(members, "["+string(k.json)+","+string(values[i].json)+"]")
		}
	}
	slices.Sort(ids)
	text := "{" + strings.Join(members, ",") + "}"
	if !object {
		text = `{"$map":[` + strings.Join(members, ",") + `]}`
	}
	return sample{etf: mapOf(entries...), json: []byte(text), same: "m{" + strings.Join(ids, ",") + "}"}
}

// Any term, in any encoding, renders as an independent description says.
func TestRandomTerms(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := draw(r, 4)
		got := value(t, []byte(render(t, holding(s.etf))))
		want := value(t, []byte(`{"v":`+string(s.json)+`}`))
		if g, w := fmt.Sprint(floats(got)), fmt.Sprint(floats(want)); g != w {
			r.Fatalf("\n got %s\nwant %s\n%x", g, w, s.etf)
		}
	})
}

// floats replaces floats by their value, for their text has tests of its own.
func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(string(v), ".e") {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}

// Two keys are refused exactly if they are encodings of the same term.
func TestRandomDuplicateKeys(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := draw(r, 3), draw(r, 3)
		if a.same != b.same {
			render(t, holding(mapOf(a.etf, list(), b.etf, list())))
			return
		}
		refusedTerm(t, holding(mapOf(a.etf, list(), b.etf, list())))
	})
	rapid.Check(t, func(r *rapid.T) {
		a := draw(r, 3)
		refusedTerm(t, holding(mapOf(a.etf, list(), integer(123456789), list(), a.etf, list())))
	})
}

// Text comes back from JSON as it went in, whatever is beside what.
func TestRandomText(t *testing.T) {
	runes := rapid.SliceOfN(rapid.SampledFrom([]rune("aaaaaaaaaaaa\"\\\x00\x1f\n\x7fé語🎉\u2028<&")), 0, 60)
	rapid.Check(t, func(r *rapid.T) {
		text := string(runes.Draw(r, "text"))
		var got map[string]string
		if err := json.Unmarshal([]byte(render(t, holding(bin(text)))), &got); err != nil || got["v"] != text {
			r.Fatalf("%q became %q, %v", text, got["v"], err)
		}
	})
}
