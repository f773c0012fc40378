package main

import "github.com/prometheus/client_golang/prometheus"

// buildInfo is a gauge that is always 1 and says what runs.
func buildInfo() prometheus.Collector {
	b := readBuild()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "docket_exporter", Name: "build_info", Help: "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	}, func() float64 { return 1 })
}

func registerLag(_ prometheus.Registerer, _ *engine) error { return nil }
