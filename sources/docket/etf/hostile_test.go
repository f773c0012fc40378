package etf_test

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// wide is a map of n keys out of order.
func wide(n int, key func(i int64) []byte) []byte {
	var entries [][]byte
	for i := range n {
		entries = append(entries, key(int64(i*7919%n)), list())
	}
	return mapOf(entries...)
}

// deep puts core into 900 layers.
func deep(core, before, after []byte) []byte {
	return cat(bytes.Repeat(before, 900), core, bytes.Repeat(after, 900))
}

func binaryKey(i int64) []byte  { return bin("a key with a common beginning " + string(integer(i))) }
func integerKey(i int64) []byte { return integer(i << 20) }
func tupleKey(i int64) []byte   { return tuple(integer(i)) }

func numberKey(i int64) []byte {
	if i%2 == 0 {
		return integer(i << 40)
	}
	return float(float64(i<<40) + 0.5)
}

// Shapes that cost a careless decoder quadratic time: ten times as many keys
// may not take a hundred times as long, and being wrapped in 900 layers may not
// multiply the cost of what is inside.
func TestHostileShapesTakeLinearTime(t *testing.T) {
	const n = 1500
	core := wide(10*n, binaryKey)
	setHead := cat(u32(116, 2), atom("__struct__"), atom("Elixir.MapSet"), atom("map"))
	set := cat(setHead, core)
	one := cat(u32(108, 1), integer(1))
	for _, c := range []struct {
		name         string
		small, large []byte
	}{
		{"binary keys", wide(n, binaryKey), core},
		{"integer keys", wide(n, integerKey), wide(10*n, integerKey)},
		{"number keys", wide(n, numberKey), wide(10*n, numberKey)},
		{"tuple keys", wide(n, tupleKey), wide(10*n, tupleKey)},
		{"lists as tails", cat(bytes.Repeat(one, n), list()), cat(bytes.Repeat(one, 10*n), list())},
		{"maps in values", core, deep(core, cat(u32(116, 2), bin("k")), cat(integer(1), integer(1)))},
		{"pairs in values", core, deep(core, cat(u32(116, 2), bin("k")), cat(bin("$"), integer(1)))},
		{"maps in keys", mapOf(core, list()), deep(core, u32(116, 2), cat(list(), integer(1), integer(1)))},
		{"sets in sets", set, deep(set, cat(setHead, u32(116, 2)), cat(list(), integer(1), list()))},
	} {
		t.Run(c.name, func(t *testing.T) {
			small, large := fastest(t, holding(c.small)), fastest(t, holding(c.large))
			limit := 6 * max(small, 3*time.Millisecond) * time.Duration(len(c.large)/len(c.small))
			if large > limit {
				t.Errorf("%d bytes took %v, but %d bytes took %v", len(c.small), small, len(c.large), large)
			}
			t.Logf("%d bytes %v, %d bytes %v", len(c.small), small, len(c.large), large)
		})
	}
}

// fastest returns the least processor time of three runs.
func fastest(t *testing.T, src []byte) time.Duration {
	d, best := etf.Decoder{MaxDepth: 3000}, time.Hour
	for range 3 {
		start := processorTime(t)
		if _, err := d.AppendJSON(nil, src); err != nil {
			t.Fatal(err)
		}
		best = min(best, processorTime(t)-start)
	}
	return best
}

// processorTime is that of this process: a clock would also measure what else
// the machine does.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
