package exporter_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// inBounds draws delays and checks that the n-th lies between half and all of
// lo doubled n times, but never above hi.
func inBounds(t rapid.TB, b *exporter.Backoff, lo, hi time.Duration) {
	t.Helper()
	full := min(lo, hi)
	for range 40 {
		if d := b.Next(); d < full/2 || d > full {
			t.Fatalf("delay %v, want %v to %v", d, full/2, full)
		}
		full = min(2*full, hi)
	}
}

func TestBackoffBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "min"))
		hi := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "max"))
		b := exporter.Backoff{Min: lo, Max: hi}
		inBounds(t, &b, lo, hi)
		b.Reset()
		inBounds(t, &b, lo, hi)
	})
}

func TestBackoffDefaults(t *testing.T) {
	var b exporter.Backoff
	inBounds(t, &b, 100*time.Millisecond, 30*time.Second)
}

func TestBackoffIsRandom(t *testing.T) {
	b := exporter.Backoff{Min: time.Minute, Max: time.Minute}
	first := b.Next()
	for range 20 {
		if b.Next() != first {
			return
		}
	}
	t.Errorf("twenty-one delays of %v: consumers that failed together come back together", first)
}
