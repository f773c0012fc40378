package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/promserver"
)

// panelQuery is a query of the dashboard, its variables filled in.
type panelQuery struct{ panel, expr string }

func panelQueries(t *testing.T) []panelQuery {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text := readText(t, filepath.Join(repository, "deploy", "grafana", "docket-exporter.json"))
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$consumer", ".*", "$__rate_interval", "10s")
	var queries []panelQuery
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries = append(queries, panelQuery{p.Title, fill.Replace(target.Expr)})
		}
	}
	if len(queries) < 40 {
		t.Fatalf("the dashboard has only %d queries", len(queries))
	}
	return queries
}

// A real Prometheus that scraped a real exporter has an answer to every query
// of the dashboard, and every series that a rule or a panel names is one.
func TestEveryPanelHasData(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.also("feed")  // its sink is down: a backlog and retries
	s.also("extra") // will be paused
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE seq = 2`) // a dead letter
	c := start(t, s.env, refusedSink+" 0", "run")
	s.await("extra", 2)
	command(t, s.env, "consumer", "pause", "extra", "--reason", "to see it").want(t, exitOK)
	prometheus := watch(t, 500*time.Millisecond, nil, c)
	queries := panelQueries(t)
	pgtest.Eventually(t, 40*time.Second, func() error {
		s.insert("r", 1) // else there is no rate, and no time of a delivery
		return unanswered(t.Context(), prometheus, queries)
	})
	wantRealMetrics(t, c.stderr.String(), queries)
}

// unanswered names the queries without a number as answer.
func unanswered(ctx context.Context, s *promserver.Server, queries []panelQuery) error {
	var empty []error
	for _, q := range queries {
		samples, err := s.Query(ctx, q.expr)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(samples, func(s promserver.Sample) bool { return !math.IsNaN(s.Value) }) {
			empty = append(empty, fmt.Errorf("%s: %s: %v", q.panel, q.expr, samples))
		}
	}
	return errors.Join(empty...)
}

func wantRealMetrics(t *testing.T, log string, queries []panelQuery) {
	t.Helper()
	text, err := scraped(log)
	if err != nil {
		t.Fatal(err)
	}
	real := set(`(?m)^# TYPE (docket_exporter_\w+) `, text)
	used := map[string]string{}
	for _, r := range alertRules(t) {
		used["rule "+r.Alert] = r.Expr
	}
	for _, q := range queries {
		used["panel "+q.panel] += q.expr + "\n"
	}
	for where, expr := range used {
		for _, name := range metricsIn(expr) {
			if !real[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
}
