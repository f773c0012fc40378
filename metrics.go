package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what this process does for its consumers. What a consumer's
// state is, whoever owns it, comes from the database through package lag.
type Metrics struct {
	accepted, batches, filled, dead, late, panics, losses *prometheus.CounterVec
	retries, deadLetters, throttled                       *prometheus.CounterVec
	delivery                                              *prometheus.HistogramVec
	polled                                                *prometheus.GaugeVec
}

// NewMetrics registers the metrics with reg; nil registers them nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "docket_exporter", Name: name, Help: help}, append([]string{"consumer"}, labels...))
	}
	return &Metrics{
		accepted:    counter("events_accepted_total", "Events that the sink has durably accepted."),
		batches:     counter("batches_total", "Batches that the sink has accepted."),
		filled:      counter("holes_filled_total", "Events that committed after an event with a higher id had been read, and were delivered."),
		dead:        counter("ids_dead_total", "Ids that were handed out and can never appear: rolled back, burned or pruned."),
		late:        counter("late_rows_total", "Events that appeared after their id had been declared dead. No correct writer makes them."),
		panics:      counter("panics_total", "Panics contained in the consumer."),
		losses:      counter("losses_total", "Losses recorded: ids that may have been events which are gone."),
		retries:     counter("retries_total", "Attempts that were repeated, by what was repeated.", "reason"),
		deadLetters: counter("dead_letters_total", "Events put aside as dead letters, by class.", "reason"),
		throttled:   counter("backfill_throttled_seconds_total", "Time in which a backfill held back, by what for.", "reason"),
		delivery: f.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "docket_exporter", Name: "delivery_seconds", Help: "Time from beginning a batch to recording its acceptance.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"consumer"}),
		polled: f.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "docket_exporter", Name: "last_successful_poll_timestamp_seconds", Help: "When this process last read the source for the consumer.",
		}, []string{"consumer"}),
	}
}

// ConsumerMetrics are the metrics of one consumer.
type ConsumerMetrics struct {
	m        *Metrics
	consumer string
}

// Consumer returns the metrics of one consumer, its counters starting at zero.
func (m *Metrics) Consumer(name string) *ConsumerMetrics {
	for _, v := range []*prometheus.CounterVec{m.accepted, m.batches, m.filled, m.dead, m.late, m.panics, m.losses} {
		v.WithLabelValues(name)
	}
	return &ConsumerMetrics{m: m, consumer: name}
}

// Forget removes the metrics of a consumer that has ended.
func (m *Metrics) Forget(name string) {
	of := prometheus.Labels{"consumer": name}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.accepted, m.batches, m.filled, m.dead, m.late, m.panics, m.losses, m.retries, m.deadLetters, m.throttled, m.delivery, m.polled,
	} {
		v.DeletePartialMatch(of)
	}
}

// Throttled counts time in which a backfill held back.
func (c *ConsumerMetrics) Throttled(reason string, d time.Duration) {
	c.m.throttled.WithLabelValues(c.consumer, reason).Add(d.Seconds())
}

// Panicked counts a contained panic.
func (c *ConsumerMetrics) Panicked() { c.m.panics.WithLabelValues(c.consumer).Inc() }

func (c *ConsumerMetrics) polled() { c.m.polled.WithLabelValues(c.consumer).SetToCurrentTime() }

// settled counts what a batch says about open ids, once the batch is done.
func (c *ConsumerMetrics) settled(b *Batch) {
	c.m.filled.WithLabelValues(c.consumer).Add(float64(b.Filled))
	c.m.dead.WithLabelValues(c.consumer).Add(float64(b.Dead.Count()))
}

func (c *ConsumerMetrics) accepted(events int, took time.Duration) {
	c.m.accepted.WithLabelValues(c.consumer).Add(float64(events))
	c.m.batches.WithLabelValues(c.consumer).Inc()
	c.m.delivery.WithLabelValues(c.consumer).Observe(took.Seconds())
}

func (c *ConsumerMetrics) lost() { c.m.losses.WithLabelValues(c.consumer).Inc() }

func (c *ConsumerMetrics) late(n int64) { c.m.late.WithLabelValues(c.consumer).Add(float64(n)) }

func (c *ConsumerMetrics) retry(reason string) { c.m.retries.WithLabelValues(c.consumer, reason).Inc() }

func (c *ConsumerMetrics) deadLetter(class string) {
	c.m.deadLetters.WithLabelValues(c.consumer, class).Inc()
}
