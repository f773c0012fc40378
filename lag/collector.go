package lag

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of reading at a scrape, so that many scrapers cost the source no more
// than one: what was read is shown again while it is younger than rest times
// the duration of the read, between minAge and maxAge.
const (
	readTimeout = 5 * time.Second // below Prometheus' scrape timeout of 10 s
	minAge      = time.Second
	maxAge      = 30 * time.Second
	rest        = 20
)

// Collector shows the lag of all consumers as metrics. It reads when it is
// scraped; scrapes at the same time share one read. When a read fails, the
// consumers have no samples until one succeeds.
type Collector struct {
	read      func(context.Context) ([]Consumer, error)
	retention time.Duration
	log       *slog.Logger
	series    series

	turn      chan struct{} // holds one token while somebody reads: the others wait and share
	consumers []Consumer    // nil after a failure
	failing   bool
	collected time.Time // of the last successful read
	next      time.Time // when it is read again
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector, to be registered by the caller. read
// returns all consumers and must end with its context; retention is how long
// events are kept, 0 for ever.
func NewCollector(read func(context.Context) ([]Consumer, error), retention time.Duration, log *slog.Logger) *Collector {
	return &Collector{read: read, retention: retention, log: log, series: newSeries(), turn: make(chan struct{}, 1)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { c.series.describe(ch) }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	consumers, collected := c.latest()
	for i := range consumers {
		c.series.consumer(ch, &consumers[i], c.retention)
	}
	if !collected.IsZero() {
		c.series.collectedAt(ch, collected)
	}
}

// latest returns what was read last, reading where that is too old.
func (c *Collector) latest() ([]Consumer, time.Time) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	start := time.Now()
	if start.Before(c.next) {
		return c.consumers, c.collected
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	consumers, err := c.read(ctx)
	end := time.Now()
	c.next = end.Add(min(max(rest*end.Sub(start), minAge), maxAge))
	c.note(err)
	if err != nil {
		c.consumers = nil
		return nil, c.collected
	}
	c.consumers, c.collected = consumers, end
	return consumers, end
}

// note logs when reading begins to fail and when it works again.
func (c *Collector) note(err error) {
	switch {
	case err != nil && !c.failing:
		c.log.Warn("lag is unknown", "err", err)
	case err == nil && c.failing:
		c.log.Info("lag is known again")
	}
	c.failing = err != nil
}
