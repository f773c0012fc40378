package lag

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Collector shows what a Watch reads as metrics. It reads when it is scraped.
// When a read fails, the consumers have no samples until one succeeds.
type Collector struct {
	watch  *Watch
	series series
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector, to be registered by the caller.
func NewCollector(w *Watch) *Collector { return &Collector{watch: w, series: newSeries()} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { c.series.describe(ch) }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	reading, retention := c.watch.Latest(), c.watch.Retention()
	for i := range reading.Consumers {
		c.series.consumer(ch, &reading.Consumers[i], retention)
	}
	if !reading.At.IsZero() {
		c.series.send(ch, "lag_collected_timestamp_seconds", float64(reading.At.UnixMilli())/1000)
	}
	if retention > 0 {
		c.series.send(ch, "retention_seconds", retention.Seconds())
	}
}
