package main

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const metricsHead = `# Metrics

<!-- Generated from the registries of run and monitor by
     go test ./cmd/exporter -run MetricsDocument -update -->

Names and labels are a contract: dashboards and alerts hang on them. Beside these
there are the usual go_ and process_ metrics of each process.

Labels: ` + "`consumer`" + ` is a consumer's name, ` + "`reason`" + ` one of a few fixed words. Run ids,
owners and transactions are never labels.

`

const metricsDatabaseHead = `## From the databases, by every process

` + "`exporter run`" + ` and ` + "`exporter monitor`" + ` read the state of *all* consumers when they
are scraped, whoever owns them, so it is there as long as one process is. Every
process says the same: take ` + "`max by (consumer)`" + `, but of headroom and
loss_eta_seconds, for which each goes by its own RETENTION_EVENTS, the ` + "`min`" + `. What
was read is shown again for 1 to 30 seconds, the longer the slower reading is.

What is unknown has no sample; it is never 0. When Docket's database does not
answer, the lag, the headroom and the rates are missing; when the exporter's own
does not, all of it is but ` + "`lag_collected_timestamp_seconds`" + ` and what begins
with ` + "`retention_`" + `. Rates come with the
second reading. A backfill has no headroom, no loss_eta_seconds, no losses and
no unowned_seconds; once it is finished it has no samples.

Ages of events are taken on the clock of Docket's database, the others on that of
the exporter's own.

`

const metricsProcessHead = `
## From the process that runs the consumer

Counters of one process since its start: take ` + "`sum by (consumer) (rate(…))`" + `.

`

// recorder is a registry that remembers what is registered.
type recorder struct{ collectors []prometheus.Collector }

func (r *recorder) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return nil
}

func (r *recorder) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c)
	}
}

func (r *recorder) Unregister(prometheus.Collector) bool { return false }

// series is a line of the document.
type series struct{ name, kind, labels, help string }

var descText = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// series lists what the collectors say of themselves, but for Go's own.
func (r *recorder) series(t *testing.T) map[string]series {
	t.Helper()
	all := map[string]series{}
	for _, c := range r.collectors {
		descs := make(chan *prometheus.Desc)
		go func() {
			c.Describe(descs)
			close(descs)
		}()
		for d := range descs {
			m := descText.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("cannot read %s", d)
			}
			if !strings.HasPrefix(m[1], "docket_exporter_") {
				continue
			}
			var labels []string
			for constant := range strings.SplitSeq(m[3], ",") {
				if name, _, ok := strings.Cut(constant, "="); ok {
					labels = append(labels, name)
				}
			}
			if m[4] != "" {
				labels = append(labels, strings.Split(m[4], ",")...)
			}
			if _, twice := all[m[1]]; twice {
				t.Errorf("%s is registered twice", m[1])
			}
			all[m[1]] = series{m[1], kindOf(c, m[1]), strings.Join(labels, ", "), strings.ReplaceAll(m[2], `\"`, `"`)}
		}
	}
	return all
}

// kindOf is the type of a metric; TestTruth compares it with what is served.
func kindOf(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.HistogramVec:
		return "histogram"
	case *prometheus.CounterVec:
		return "counter"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// shown are the series of the processes run and monitor.
func shown(t *testing.T) (run, monitoring map[string]series) {
	t.Helper()
	none := slog.New(slog.DiscardHandler)
	db := DatabaseConfig{Docket: DatabaseURL{text: "postgres://127.0.0.1:1/app"}, Export: DatabaseURL{text: "postgres://127.0.0.1:1/app"}}
	watch := WatchConfig{Retention: Retention(time.Hour)}
	e, err := newEngine(t.Context(), Config{Database: db, Exporter: ExporterConfig{WatchConfig: watch}}, false, none)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	m, err := newMonitor(t.Context(), db, watch, none)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePools(m.docket, m.export) })
	var ofRun, ofMonitor recorder
	e.register(&ofRun)
	m.register(&ofMonitor)
	return ofRun.series(t), ofMonitor.series(t)
}

func metricsDocument(t *testing.T) string {
	t.Helper()
	run, monitoring := shown(t)
	var everywhere, running []series
	for name, s := range run {
		if other, ok := monitoring[name]; ok {
			if other != s {
				t.Errorf("run has %v, monitor %v", s, other)
			}
			everywhere = append(everywhere, s)
		} else {
			running = append(running, s)
		}
	}
	for name := range monitoring {
		if _, ok := run[name]; !ok {
			t.Errorf("monitor has %s, which run has not", name)
		}
	}
	return metricsHead + metricsDatabaseHead + metricsTable(everywhere) + metricsProcessHead + metricsTable(running)
}

func metricsTable(list []series) string {
	slices.SortFunc(list, func(a, b series) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, s := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, s.kind, s.labels, s.help)
	}
	return b.String()
}

// The document lists every series, so none is renamed without being noticed.
func TestMetricsDocument(t *testing.T) {
	wantDocument(t, "metrics.md", metricsDocument(t), "a metric changed; its name is a contract")
}
