package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestUnverifiedSinksAreShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(unverifiedSinks([]ConsumerConfig{
		{Name: "files", Sink: SinkFile},
		{Name: "trusting", Sink: SinkClickHouse, ClickHouse: ClickHouseConfig{DSN: Secret{"https://ch:8443/db?skip_verify=true"}}},
		{Name: "native", Sink: SinkClickHouse, ClickHouse: ClickHouseConfig{DSN: Secret{"clickhouse://ch:9440/db?secure=true&skip_verify=true"}}},
		{Name: "careful", Sink: SinkClickHouse, ClickHouse: ClickHouseConfig{DSN: Secret{"https://ch:8443/db"}}},
	}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"files": 0, "trusting": 1, "native": 1, "careful": 0} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v, want %v", name, v, want)
		}
	}
}
