package exporter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// place is a position in terms of cells.
type place struct {
	high  int
	holes mask
}

func (p place) done() mask { return upTo(p.high) &^ p.holes }

func (p place) position() exporter.Position {
	return exporter.Position{High: cells[p.high].Hi, Holes: p.holes.ranges()}
}

func places() *rapid.Generator[place] {
	return rapid.Custom(func(t *rapid.T) place {
		high := rapid.IntRange(0, len(cells)-1).Draw(t, "high")
		return place{high, masks().Draw(t, "holes") & upTo(high)}
	})
}

// guardedPosition is a position over an array with room behind it; see guarded.
func guardedPosition(t rapid.TB, p place) (exporter.Position, func()) {
	holes, same := guarded(t, p.holes)
	return exporter.Position{High: cells[p.high].Hi, Holes: holes}, same
}

func samePosition(t rapid.TB, what string, got exporter.Position, want place) {
	t.Helper()
	if w := want.position(); got.High != w.High || !slices.Equal(got.Holes, w.Holes) {
		t.Fatalf("%s = %v, want %v", what, got, w)
	}
}

func TestPositionAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ids := places().Draw(t, "a"), masks().Draw(t, "ids")
		p, pSame := guardedPosition(t, a)
		r, rSame := guarded(t, ids)
		for i, c := range cells {
			if p.Contains(c.Lo) != a.done().has(i) || p.Contains(c.Hi) != a.done().has(i) {
				t.Fatalf("%v contains %v: %v", p, c, !a.done().has(i))
			}
		}
		samePosition(t, "fill", p.Fill(r), place{a.high, a.holes &^ ids})
		samePosition(t, "reopen", p.Reopen(r), place{a.high, a.holes | ids&upTo(a.high)})
		to := rapid.IntRange(0, len(cells)-1).Draw(t, "to")
		want := place{max(a.high, to), a.holes | ids&upTo(to)&^upTo(a.high)}
		samePosition(t, "advance", p.Advance(cells[to].Hi, r), want)
		pSame()
		rSame()
	})
}

func TestPositionsCompared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := places().Draw(t, "a"), places().Draw(t, "b")
		if rapid.Bool().Draw(t, "near") { // of independent positions hardly one covers another
			b = place{a.high, a.holes & b.holes}
		}
		p, pSame := guardedPosition(t, a)
		q, qSame := guardedPosition(t, b)
		sameRanges(t, "minus", p.Minus(q), (a.done() &^ b.done()).ranges())
		if got, want := p.Covers(q), b.done()&^a.done() == 0; got != want {
			t.Fatalf("%v covers %v: %v", p, q, got)
		}
		if got, want := p.Equal(q), a == b; got != want {
			t.Fatalf("%v equals %v: %v", p, q, got)
		}
		pSame()
		qSame()
	})
}

// Wherever a limit cuts, the batch and what is left after it make up the whole.
func TestPositionBatchAndRemainderAreTheWhole(t *testing.T) {
	further := func(t *rapid.T, p exporter.Position) exporter.Position {
		to := rapid.IntRange(0, len(cells)-1).Draw(t, "to")
		return p.Advance(cells[to].Hi, masks().Draw(t, "open").ranges()).Fill(masks().Draw(t, "filled").ranges())
	}
	rapid.Check(t, func(t *rapid.T) {
		from := places().Draw(t, "from").position()
		mid := further(t, from)
		to := further(t, mid)
		batch, rest := mid.Minus(from), to.Minus(mid)
		if !mid.Covers(from) || !to.Covers(mid) || !to.Covers(from) {
			t.Fatalf("%v, %v, %v do not cover one another", from, mid, to)
		}
		sameRanges(t, "both", batch.Intersect(rest), nil)
		sameRanges(t, "all", batch.Union(rest), to.Minus(from))
	})
}

// A rolled-back bulk insert is one range, however many ids it has drawn.
func TestPositionWithFiveMillionOpenIDs(t *testing.T) {
	const n = 5_000_000
	p := exporter.Position{}.Advance(n+10, exporter.Ranges{{Lo: 3, Hi: n + 2}})
	if len(p.Holes) != 1 || p.Holes.Count() != n || p.String() != "5000010-{[3,5000002]}" {
		t.Errorf("position %v with %d open ids", p, p.Holes.Count())
	}
	filled := exporter.Position{High: n + 10}
	if got := filled.Minus(p); len(got) != 1 || got.Count() != n {
		t.Errorf("minus = %v", got)
	}
	allocs := testing.AllocsPerRun(10, func() { filled.Minus(p) })
	if allocs > 5 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestPositionPrintAndParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := places().Draw(t, "a")
		got, err := exporter.ParsePosition(a.position().String())
		if err != nil {
			t.Fatal(err)
		}
		samePosition(t, "printed and parsed", got, a)
	})
	for text, want := range map[string]string{
		"0":                        "0",
		"120345":                   "120345",
		"120345-{}":                "120345",
		"120345-{[120300,120302]}": "120345-{[120300,120302]}",
		"8-{[1,4),[7,8)}":          "8-{[1,3],[7,7]}",
		"-5-{[-9,-7]}":             "-5-{[-9,-7]}",
	} {
		if got, err := exporter.ParsePosition(text); err != nil || got.String() != want {
			t.Errorf("%q was read as %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestPositionRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "x", "5 ", "5-", "5x", "5.0", "0x5", "latest", "9223372036854775808", "{[1,2]}", "-{[1,2]}",
		"5-{", "5-}", "5-{}x", "5-{[1,2]", "5-{[2,1]}", "5-{[1,2],[2,3]}", "5-{[3,4],[1,2]}", "5-{[1,2]}-{[4,4]}", "5{[1,2]}",
		"5-{[4,6]}", "5-{[1,2],[6,7)}",
	} {
		got, err := exporter.ParsePosition(text)
		if err == nil {
			t.Errorf("%q was read as %v", text, got)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q: the error does not name it: %v", text, err)
		}
	}
	if _, err := exporter.ParsePosition("5-{[4,6]}"); err == nil || !strings.Contains(err.Error(), "open id 6 lies above 5") {
		t.Errorf("a hole above the position: %v", err)
	}
}

func FuzzParsePosition(f *testing.F) {
	for _, text := range []string{"0", "120345-{[120300,120302]}", "8-{[1,4),[7,8)}", "-5-{[-9,-7]}", "5-{", "5-{[1,9223372036854775807]}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := exporter.ParsePosition(text)
		if err != nil {
			return
		}
		again, err := exporter.ParsePosition(p.String())
		if err != nil || !again.Equal(p) {
			t.Fatalf("%q was read as %v, which was read as %v, %v", text, p, again, err)
		}
	})
}
