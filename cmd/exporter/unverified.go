package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// unverifiedSinks is a gauge that is 1 for every consumer that does not verify
// who its sink is, 0 for the others.
func unverifiedSinks(consumers []ConsumerConfig) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "docket_exporter", Name: "sink_tls_unverified",
		Help: "1 when the consumer talks to its sink over TLS without verifying the sink's certificate.",
	}, []string{"consumer"})
	for _, c := range consumers {
		value := 0.0
		if c.Sink == SinkClickHouse && c.ClickHouse.sink(slog.New(slog.DiscardHandler)).Unverified() {
			value = 1
		}
		g.WithLabelValues(c.Name).Set(value)
	}
	return g
}
