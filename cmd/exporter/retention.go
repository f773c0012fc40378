package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-exporter/exporter/retention"
	"github.com/docket-exporter/exporter/sources/docket"
)

// policy is what was told about Docket's pruner.
func (c *WatchConfig) policy() retention.Policy {
	return retention.Policy{Events: c.Retention.Value(), Runs: c.RetentionRuns.Value()}
}

const (
	policyInterval = time.Minute // between looks at the tables
	policyRepeat   = time.Hour   // between warnings of the same mismatch
)

// policyWatch compares the told retention with Docket's tables as long as the
// process runs. It is safe for concurrent use.
type policyWatch struct {
	docket *pgxpool.Pool
	schema string
	policy retention.Policy
	log    *slog.Logger

	mu       sync.Mutex
	observer *retention.Observer
	verdict  retention.Verdict
	known    bool // by the last look
	said     remark
}

func newPolicyWatch(pool *pgxpool.Pool, schema string, policy retention.Policy, log *slog.Logger) *policyWatch {
	return &policyWatch{docket: pool, schema: schema, policy: policy, log: log, observer: retention.NewObserver(policy)}
}

// run looks now and then until ctx ends.
func (w *policyWatch) run(ctx context.Context) {
	for {
		w.look(ctx)
		if !waitFor(ctx, policyInterval) {
			return
		}
	}
}

// look compares once.
func (w *policyWatch) look(ctx context.Context) {
	sight, err := docket.ReadSight(ctx, w.docket, w.schema, w.policy.Events)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known = err == nil; err != nil {
		w.log.Debug("the retention is not compared", "err", err)
		return
	}
	w.verdict = w.observer.Observe(sight)
	text, hint := w.verdict.Text()
	switch {
	case w.verdict.Mismatch == retention.Agrees && w.said.text != "":
		w.log.Info("the retention agrees with the table again", "seen", text)
		w.said = remark{}
	case w.verdict.Mismatch == retention.Agrees:
	case w.said.text != string(w.verdict.Mismatch) || time.Since(w.said.at) > policyRepeat:
		w.log.Warn(text, "hint", hint)
		w.said = remark{string(w.verdict.Mismatch), time.Now()}
	}
}

// latest returns the verdict of the last look, and whether it succeeded.
func (w *policyWatch) latest() (retention.Verdict, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verdict, w.known
}

// effective is the retention to judge losses by, 0 before the first look.
func (w *policyWatch) effective() time.Duration {
	v, _ := w.latest()
	return v.Effective
}

var (
	mismatchDesc = prometheus.NewDesc("docket_exporter_retention_mismatch",
		"1 while Docket's tables contradict the retention that was told.", nil, nil)
	observedDesc = prometheus.NewDesc("docket_exporter_retention_observed_seconds",
		"Age of the oldest event in Docket's table; absent without one.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *policyWatch) Describe(ch chan<- *prometheus.Desc) { ch <- mismatchDesc; ch <- observedDesc }

// Collect implements prometheus.Collector.
func (w *policyWatch) Collect(ch chan<- prometheus.Metric) {
	v, known := w.latest()
	if !known {
		return
	}
	ch <- prometheus.MustNewConstMetric(mismatchDesc, prometheus.GaugeValue, oneIf(v.Mismatch != retention.Agrees))
	if !v.Empty {
		ch <- prometheus.MustNewConstMetric(observedDesc, prometheus.GaugeValue, v.Observed.Seconds())
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
