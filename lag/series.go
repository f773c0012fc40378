package lag

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of the package. Their names are a contract.
type series struct {
	events, exact, seconds, headroom, high, holes, owned, paused, collected *prometheus.Desc
}

func newSeries() series {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("docket_exporter_"+name, help, labels, nil)
	}
	return series{
		events:    desc("lag_events", "Committed events that the consumer has not delivered; at most that many where lag_exact is 0.", "consumer"),
		exact:     desc("lag_exact", "1 when lag_events was counted, 0 when it is the distance of ids.", "consumer"),
		seconds:   desc("lag_seconds", "Age of the oldest undelivered event; 0 only when nothing is undelivered.", "consumer"),
		headroom:  desc("headroom_seconds", "Time until the retention reaches the oldest undelivered event; negative when it has.", "consumer"),
		high:      desc("position_high_id", "Id up to which every event is done, but for open ids.", "consumer"),
		holes:     desc("open_holes", "Ranges of ids below position_high_id that were handed out and may still appear.", "consumer"),
		owned:     desc("consumer_owned", "1 when a process owns the consumer.", "consumer"),
		paused:    desc("consumer_paused", "1 when the consumer is paused and needs a person.", "consumer"),
		collected: desc("lag_collected_timestamp_seconds", "When this process last read the lag of the consumers."),
	}
}

func (s *series) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.events, s.exact, s.seconds, s.headroom, s.high, s.holes, s.owned, s.paused, s.collected} {
		ch <- d
	}
}

// consumer sends the samples that are known of one consumer.
func (s *series) consumer(ch chan<- prometheus.Metric, c *Consumer, retention time.Duration) {
	send := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, c.Name)
	}
	send(s.high, float64(c.HighID))
	send(s.holes, float64(c.OpenHoles))
	send(s.owned, oneIf(c.Owned))
	send(s.paused, oneIf(c.Paused))
	if c.Backlog == nil {
		return
	}
	send(s.events, float64(c.Backlog.Events))
	send(s.exact, oneIf(c.Backlog.Exact))
	if age, known := c.Backlog.Age(); known {
		send(s.seconds, age.Seconds())
	}
	if left, known := c.Backlog.Headroom(retention); known {
		send(s.headroom, left.Seconds())
	}
}

func (s *series) collectedAt(ch chan<- prometheus.Metric, at time.Time) {
	ch <- prometheus.MustNewConstMetric(s.collected, prometheus.GaugeValue, float64(at.UnixMilli())/1000)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
