package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/promserver"
)

// impatientRules are the alert rules, each of which waits a second at most.
func impatientRules(t *testing.T) string {
	t.Helper()
	groups := readRules(t)
	for _, g := range groups.Groups {
		for i := range g.Rules {
			if g.Rules[i].For != "" {
				g.Rules[i].For = "1s"
			}
		}
	}
	text, err := yaml.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// watch starts a Prometheus that scrapes exporters.
func watch(t *testing.T, every time.Duration, rules []string, children ...*child) *promserver.Server {
	t.Helper()
	var targets []string
	for _, c := range children {
		targets = append(targets, strings.TrimPrefix(c.url(), "http://"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := promserver.Start(ctx, promserver.Options{Targets: targets, RuleFiles: rules, Interval: every})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// alertStates are the states of alerts by their names, without the prefix.
type alertStates map[string]string

// awaitAlerts waits until these alerts and no others are there, in these states.
func awaitAlerts(t *testing.T, s *promserver.Server, want alertStates) []promserver.Alert {
	t.Helper()
	var alerts []promserver.Alert
	pgtest.Eventually(t, 30*time.Second, func() error {
		var err error
		if alerts, err = s.Alerts(t.Context()); err != nil {
			return err
		}
		got := alertStates{}
		for _, a := range alerts {
			name := strings.TrimPrefix(a.Labels["alertname"], "DocketExporter")
			if got[name] != "" {
				return fmt.Errorf("%s is there twice: %v", name, alerts)
			}
			got[name] = a.State
		}
		if !maps.Equal(got, want) {
			return errors.New(cmp.Diff(want, got))
		}
		return nil
	})
	return alerts
}

// Two replicas, one Prometheus: a consumer that is paused raises one alert, and
// those of the headroom as its events grow old. They end when it is resumed.
// All replicas killed raise another one.
func TestAlertsOfARunningFleet(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.env["RETENTION_EVENTS"] = "10m"
	s.insert("r", 2)
	a, b := start(t, s.env, "", "run"), start(t, s.env, "", "run")
	s.await("analytics", 2)
	prometheus := watch(t, 500*time.Millisecond, []string{impatientRules(t)}, a, b)
	pgtest.Until(t, 30*time.Second, "the lag from both", func() bool {
		samples, err := prometheus.Query(t.Context(), "docket_exporter_lag_events == 0")
		return err == nil && len(samples) == 2
	})
	awaitAlerts(t, prometheus, alertStates{})

	command(t, s.env, "consumer", "pause", "analytics", "--reason", "the warehouse moves").want(t, exitOK)
	awaitAlerts(t, prometheus, alertStates{"ConsumerPausedByOperator": "pending"})
	alerts := awaitAlerts(t, prometheus, alertStates{"ConsumerPausedByOperator": "firing"})
	if got, want := alerts[0].Annotations["description"], "Next: exporter cursor show analytics"; !strings.Contains(got, want) {
		t.Errorf("the description %q lacks %q", got, want)
	}
	s.insert("r", 2)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET inserted_at = now() - interval '6 minutes' WHERE seq = 4`)
	awaitAlerts(t, prometheus, alertStates{"ConsumerPausedByOperator": "firing", "HeadroomLow": "firing", "LossNear": "firing"})
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET inserted_at = now() - interval '9 minutes' WHERE seq = 4`)
	awaitAlerts(t, prometheus, alertStates{"ConsumerPausedByOperator": "firing", "HeadroomLow": "firing", "HeadroomCritical": "firing", "LossNear": "firing"})

	command(t, s.env, "consumer", "resume", "analytics", "--reason", "it has moved").want(t, exitOK)
	awaitAlerts(t, prometheus, alertStates{})
	s.wantDelivered("analytics", "r", 4)

	a.kill()
	b.kill()
	awaitAlerts(t, prometheus, alertStates{"Absent": "firing"})
}
