package promserver_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/promserver"
)

func start(t *testing.T, o promserver.Options) *promserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := promserver.Start(ctx, o)
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

func TestScrapesEvaluatesAndAnswers(t *testing.T) {
	reg := prometheus.NewRegistry()
	heat := prometheus.NewGauge(prometheus.GaugeOpts{Name: "heat"})
	reg.MustRegister(heat)
	heat.Set(7)
	target := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)
	rules := filepath.Join(t.TempDir(), "rules.yml")
	text := "groups: [{name: g, rules: [{alert: Hot, expr: heat > 5, annotations: {summary: 'at {{ $value }}'}}]}]"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, promserver.Options{
		Targets: []string{strings.TrimPrefix(target.URL, "http://")}, RuleFiles: []string{rules}, Interval: 200 * time.Millisecond,
	})
	pgtest.Until(t, 10*time.Second, "the alert", func() bool {
		alerts, err := s.Alerts(t.Context())
		return err == nil && len(alerts) == 1 && alerts[0].State == "firing" && alerts[0].Annotations["summary"] == "at 7"
	})
	for _, expr := range []string{"heat", "scalar(heat)"} {
		if got, err := s.Query(t.Context(), expr); err != nil || len(got) != 1 || got[0].Value != 7 {
			t.Errorf("%s: %v, %v", expr, got, err)
		}
	}
	if got, err := s.Query(t.Context(), "cold"); err != nil || len(got) != 0 {
		t.Errorf("cold: %v, %v", got, err)
	}
	if _, err := s.Query(t.Context(), "heat +"); err == nil || !strings.Contains(err.Error(), "parse error") {
		t.Errorf("a wrong expression: %v", err)
	}
}

// A configuration that Prometheus refuses fails with its words.
func TestStartSaysWhatIsWrong(t *testing.T) {
	_, err := promserver.Start(t.Context(), promserver.Options{RuleFiles: []string{"[bad"}, Interval: time.Second})
	if err == nil || !strings.Contains(err.Error(), "[bad") {
		t.Errorf("got %v", err)
	}
}
