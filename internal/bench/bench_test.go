package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

func TestQuantilesAreValuesOfTheSample(t *testing.T) {
	var s sample
	for i := 100; i >= 1; i-- {
		s = append(s, float64(i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := s.quantile(q); got != want {
			t.Errorf("quantile %g = %g, want %g", q, got, want)
		}
	}
	if got := s.median(); got != 50.5 {
		t.Errorf("median = %g, want 50.5", got)
	}
	if got := sample(nil).quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %g, want 0", got)
	}
}

// An event is settled once the position covers it, not when a later one is.
func TestSettleLeavesOpenIdsPending(t *testing.T) {
	start := time.Now()
	w := watch{pending: []commit{{ids: []int64{1, 2, 3}, at: start}, {ids: []int64{4}, at: start.Add(time.Millisecond)}}}
	w.settle(exporter.Position{High: 4, Holes: exporter.Ranges{{Lo: 2, Hi: 2}}}, start.Add(5*time.Millisecond))
	if want := (sample{5, 5, 4}); !slices.Equal(w.latencies, want) {
		t.Errorf("latencies = %v, want %v", w.latencies, want)
	}
	if len(w.pending) != 1 || !slices.Equal(w.pending[0].ids, []int64{2}) {
		t.Errorf("pending = %v, want id 2 alone", w.pending)
	}
	w.settle(exporter.Position{High: 4}, start.Add(9*time.Millisecond))
	if len(w.pending) != 0 || w.latencies[len(w.latencies)-1] != 9 {
		t.Errorf("pending = %v, latencies = %v, want none pending and the last 9", w.pending, w.latencies)
	}
}

func TestSettingsNameWhatIsWrong(t *testing.T) {
	env := map[string]string{"BENCH_EVENTS": "many", "BENCH_ONLY": "rate,speed", "BENCH_FLAT": "5000000,1000000", "BENCH_EXPORTER": "/dev/null"}
	_, err := readSettings(func(name string) string { return env[name] })
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`BENCH_EVENTS is "many"`, `BENCH_ONLY names "speed"`, `BENCH_FLAT is "5000000,1000000"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}
