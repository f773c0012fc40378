package exporter_test

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// cells tile the whole line of ids: single ids at both extremes and around
// zero, and all between them. A set that is made of cells is then a bit mask,
// and the algebra of sets is that of masks.
var cells = func() (out []exporter.Range) {
	single := func(from, n int64) {
		for i := range n {
			out = append(out, exporter.Range{Lo: from + i, Hi: from + i})
		}
	}
	single(math.MinInt64, 5)
	out = append(out, exporter.Range{Lo: math.MinInt64 + 5, Hi: -4})
	single(-3, 12)
	out = append(out, exporter.Range{Lo: 9, Hi: math.MaxInt64 - 5})
	single(math.MaxInt64-4, 5)
	return out
}()

type mask uint32

func (m mask) has(cell int) bool { return m>>cell&1 == 1 }

// upTo is the cells from the lowest to this one.
func upTo(cell int) mask { return mask(1)<<(cell+1) - 1 }

// ranges is the canonical form: neighbouring cells make one range.
func (m mask) ranges() exporter.Ranges {
	var out exporter.Ranges
	for i, c := range cells {
		switch {
		case !m.has(i):
		case i > 0 && m.has(i-1):
			out[len(out)-1].Hi = c.Hi
		default:
			out = append(out, c)
		}
	}
	return out
}

func (m mask) count() int64 {
	var n uint64
	for i, c := range cells {
		if m.has(i) {
			n += min(uint64(c.Hi)-uint64(c.Lo)+1, math.MaxInt64-n)
		}
	}
	return int64(n)
}

// masks draws sets with short and with long ranges.
func masks() *rapid.Generator[mask] {
	return rapid.Custom(func(t *rapid.T) mask {
		m := rapid.Uint32().Draw(t, "bits")
		switch rapid.IntRange(0, 3).Draw(t, "shape") {
		case 1:
			m |= m<<1 | m>>1
		case 2:
			m &= bits.RotateLeft32(m, 1)
		case 3:
			m = ^(m & bits.RotateLeft32(m, 3))
		}
		return mask(m) & upTo(len(cells)-1)
	})
}

// guarded returns the set in an array with room behind it, and a check that
// neither the set nor that room has changed.
func guarded(t rapid.TB, m mask) (exporter.Ranges, func()) {
	want := m.ranges()
	spare := exporter.Range{Lo: 77, Hi: 78}
	whole := append(slices.Clone(want), spare, spare)
	return whole[:len(want)], func() {
		t.Helper()
		if !slices.Equal(whole, append(want, spare, spare)) {
			t.Fatalf("an operand was changed from %v to %v", want, whole)
		}
	}
}

func sameRanges(t rapid.TB, what string, got, want exporter.Ranges) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s = %v, want %v", what, got, want)
	}
}

func TestRangesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := masks().Draw(t, "a"), masks().Draw(t, "b")
		x, xSame := guarded(t, a)
		y, ySame := guarded(t, b)
		sameRanges(t, "union", x.Union(y), (a | b).ranges())
		sameRanges(t, "intersect", x.Intersect(y), (a & b).ranges())
		sameRanges(t, "minus", x.Minus(y), (a &^ b).ranges())
		for i, c := range cells {
			if x.Contains(c.Lo) != a.has(i) || x.Contains(c.Hi) != a.has(i) {
				t.Fatalf("%v contains %v: %v", x, c, !a.has(i))
			}
		}
		if got := x.Count(); got != a.count() {
			t.Fatalf("count of %v = %d, want %d", x, got, a.count())
		}
		xSame()
		ySame()
	})
}

func TestRangesNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := masks().Draw(t, "a")
		lo := rapid.IntRange(0, len(cells)-1).Draw(t, "lo")
		n := rapid.IntRange(0, 5).Draw(t, "n")
		x, same := guarded(t, a)
		want := (a &^ (upTo(lo) >> 1)).ranges()
		for len(want) > n {
			want = want[1:]
		}
		sameRanges(t, "newest", x.Newest(cells[lo].Lo, n), want)
		same()
	})
}

func TestRangesAppendMakesCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := masks().Draw(t, "a")
		var got exporter.Ranges
		for i, c := range cells {
			if a.has(i) {
				got = got.Append(c)
			}
		}
		sameRanges(t, "appended", got, a.ranges())
	})
}

func TestRangesPrintAndParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := masks().Draw(t, "a").ranges()
		got, err := exporter.ParseRanges(want.String())
		if err != nil {
			t.Fatal(err)
		}
		sameRanges(t, "printed and parsed", got, want)
	})
}

// PostgreSQL prints an int8multirange with its upper ends excluded; the
// highest id has no such form.
func TestRangesParsePostgresText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := (masks().Draw(t, "a") & upTo(len(cells)-2)).ranges()
		var text []string
		for _, r := range want {
			text = append(text, fmt.Sprintf("[%d,%d)", r.Lo, r.Hi+1))
		}
		got, err := exporter.ParseRanges("{" + strings.Join(text, ",") + "}")
		if err != nil {
			t.Fatal(err)
		}
		sameRanges(t, "parsed", got, want)
	})
	got, err := exporter.ParseRanges("{[1,4),[7,8)}")
	if err != nil || got.String() != "{[1,3],[7,7]}" {
		t.Errorf("parsed %v, %v", got, err)
	}
}

func TestRangesRefused(t *testing.T) {
	for _, text := range []string{
		"", "{", "}", "[1,2]", "{[1,2]", "[1,2]}", "{[1,2]}}", "{[1,2],}", "{,[1,2]}", "{[1,2][4,5]}", "{[1,2] ,[4,5]}",
		"{(1,3)}", "{(,3)}", "{[3,)}", "{empty}", "{[1;2]}", "{[1,2,3]}", "{[a,2]}", "{[1, 2]}", "{]}", "{)}", "{[]}",
		"{[2,1]}", "{[3,3)}", "{[1,2],[2,3]}", "{[4,5],[1,2]}", "{[1,9223372036854775808]}",
		"{[-9223372036854775808,-9223372036854775808)}",
	} {
		got, err := exporter.ParseRanges(text)
		if err == nil {
			t.Errorf("%q was read as %v", text, got)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q: the error does not name it: %v", text, err)
		}
	}
}
