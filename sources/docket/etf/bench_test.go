package etf_test

import (
	"testing"

	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// terms returns payload and metadata of each real event.
func terms(t testing.TB) (events [][2][]byte, size int) {
	t.Helper()
	for _, r := range rows(t) {
		e := [2][]byte{unhex(t, r.Payload), unhex(t, r.Metadata)}
		events, size = append(events, e), size+len(e[0])+len(e[1])
	}
	return events, size
}

func TestNoAllocationOnRealRows(t *testing.T) {
	events, _ := terms(t)
	var d etf.Decoder
	dst := make([]byte, 0, 1<<20)
	var total float64
	for _, e := range events {
		total += testing.AllocsPerRun(1, func() {
			for _, src := range e {
				if _, err := d.AppendJSON(dst, src); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if total != 0 {
		t.Errorf("%v allocations in %d events, want none", total, len(events))
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	events, size := terms(b)
	var d etf.Decoder
	dst := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	b.SetBytes(int64(size / len(events)))
	n := 0
	for b.Loop() {
		for _, src := range events[n%len(events)] {
			if _, err := d.AppendJSON(dst, src); err != nil {
				b.Fatal(err)
			}
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}
