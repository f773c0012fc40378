package exporter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-exporter/exporter"
)

// compare checks samples, written without the prefix that all names have.
func compare(t *testing.T, reg *prometheus.Registry, samples ...string) {
	t.Helper()
	want := map[string]string{}
	for _, s := range samples {
		want["docket_exporter_"+s[:strings.LastIndex(s, " ")]] = s[strings.LastIndex(s, " ")+1:]
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			got[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = fmt.Sprint(m.GetCounter().GetValue())
		}
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %s", name, got[name], value)
		}
	}
}

func TestMetricsOfAConsumer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reg := prometheus.NewRegistry()
		metrics := func(p *exporter.Pipeline) { p.Metrics = exporter.NewMetrics(reg).Consumer("feed") }
		w.fillMixed()
		usual := w.at
		down := map[string]int{"deliver": 2, "poll": 3, "begin": 1, "accept": 4}
		w.at = func(point string) error {
			if down[point]--; down[point] >= 0 {
				return errDown
			}
			return usual(point)
		}
		if err := w.runFor(time.Hour, metrics, slowPolls); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		compare(t, reg,
			`events_accepted_total{consumer="feed"} `+fmt.Sprint(w.store.events),
			`batches_total{consumer="feed"} `+fmt.Sprint(w.store.number),
			`holes_filled_total{consumer="feed"} 1`,
			`ids_dead_total{consumer="feed"} 1`,
			`late_rows_total{consumer="feed"} 0`,
			`panics_total{consumer="feed"} 0`,
			`dead_letters_total{consumer="feed",reason="undecodable"} 1`,
			`dead_letters_total{consumer="feed",reason="refused"} 1`,
			`retries_total{consumer="feed",reason="unavailable"} 2`,
			`retries_total{consumer="feed",reason="rejected"} 1`,
			`retries_total{consumer="feed",reason="read"} 3`,
			`retries_total{consumer="feed",reason="begin"} 1`,
			`retries_total{consumer="feed",reason="record"} 4`,
		)
	})
}

// A batch that no sink has seen is not one that a sink has accepted.
func TestPoisonOnlyBatchIsNotCountedAsAccepted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reg := prometheus.NewRegistry()
		poison := event("a", 1)
		poison.poison = true
		w.insert(poison)
		metrics := func(p *exporter.Pipeline) { p.Metrics = exporter.NewMetrics(reg).Consumer("feed") }
		if err := w.runFor(time.Second, metrics); err != nil {
			t.Fatal(err)
		}
		compare(t, reg,
			`batches_total{consumer="feed"} 0`,
			`events_accepted_total{consumer="feed"} 0`,
			`dead_letters_total{consumer="feed",reason="undecodable"} 1`,
		)
	})
}

func TestLateRowsAreCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reg := prometheus.NewRegistry()
		w.rollback(w.begin(event("late", 1)))
		w.insert(event("a", 1))
		w.at = func(point string) error {
			if point == "sweep" {
				late := event("late", 1)
				late.ID = 1
				w.rows[1] = late
			}
			return nil
		}
		metrics := func(p *exporter.Pipeline) { p.Metrics = exporter.NewMetrics(reg).Consumer("feed") }
		if err := w.runFor(time.Minute, metrics); err != nil {
			t.Fatal(err)
		}
		compare(t, reg, `late_rows_total{consumer="feed"} 1`, `events_accepted_total{consumer="feed"} 2`)
	})
}

func TestCountersStartAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := exporter.NewMetrics(reg).Consumer("feed")
	compare(t, reg,
		`events_accepted_total{consumer="feed"} 0`, `batches_total{consumer="feed"} 0`, `holes_filled_total{consumer="feed"} 0`,
		`ids_dead_total{consumer="feed"} 0`, `late_rows_total{consumer="feed"} 0`, `panics_total{consumer="feed"} 0`,
	)
	c.Panicked()
	compare(t, reg, `panics_total{consumer="feed"} 1`)
}
