package lag

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of the package, by name without the prefix. Their
// names are a contract.
type series map[string]*prometheus.Desc

func newSeries() series {
	s := series{}
	add := func(name, help string, labels ...string) {
		s[name] = prometheus.NewDesc("docket_exporter_"+name, help, labels, nil)
	}
	consumer := func(name, help string) { add(name, help, "consumer") }

	consumer("lag_events", "Committed events that the consumer has not delivered; at most that many where lag_exact is 0.")
	consumer("lag_exact", "1 when lag_events was counted, 0 when it is the distance of ids.")
	consumer("lag_seconds", "Age of the oldest undelivered event; 0 only when nothing is undelivered.")
	consumer("headroom_seconds", "Time until the retention reaches the oldest undelivered event; negative when it has.")
	consumer("headroom_ratio", "headroom_seconds as a share of the retention.")

	consumer("position_high_id", "Id up to which every event is done, but for open ids.")
	consumer("open_holes", "Ranges of ids below position_high_id that were handed out and may still appear.")
	consumer("oldest_hole_seconds", "How long the oldest open id is known to be open; 0 when none is, absent while nobody owns the consumer and looks.")

	consumer("consumer_owned", "1 when a process owns the consumer.")
	consumer("consumer_epoch", "Number of the last ownership; each claim raises it.")
	consumer("unowned_seconds", "Time since the last owner gave the consumer up or lost it; 0 while it is owned.")
	consumer("consumer_paused", "1 when the consumer is paused and needs a person.")
	add("consumer_paused_reason", "1 for the reason for which the consumer is paused.", "consumer", "reason")

	consumer("since_progress_seconds", "Time since an event was last accepted or nothing was left, whichever is later; since the consumer was made when neither has been.")
	consumer("since_poll_seconds", "Time since the owner last read the source with success.")

	consumer("dead_letters_open", "Dead letters that wait for a person.")
	consumer("dead_letters_held", "Events that wait behind an open dead letter of their run.")
	consumer("dead_letter_oldest_seconds", "Age of the oldest dead letter that waits.")
	consumer("losses_open", "Recorded losses that no person has accepted yet.")
	consumer("lost_events_open", "Most events that the losses in losses_open can stand for.")

	consumer("arrival_events_per_second", "Events committed for the consumer, estimated over the last two minutes.")
	consumer("drain_events_per_second", "Events that the sink accepted, over the last two minutes.")
	consumer("catch_up_seconds", "Time until nothing is left at the present rates: 0 when caught up, +Inf when losing ground.")
	consumer("loss_eta_seconds", "Time until the retention reaches the oldest undelivered event at the present rates; +Inf when never.")

	add("lag_collected_timestamp_seconds", "When this process last read the state of the consumers.")
	add("retention_seconds", "How long Docket keeps events, as RETENTION_EVENTS says.")
	return s
}

func (s series) describe(ch chan<- *prometheus.Desc) {
	for _, d := range s {
		ch <- d
	}
}

func (s series) send(ch chan<- prometheus.Metric, name string, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(s[name], prometheus.GaugeValue, v, labels...)
}

// consumer sends the samples that are known of one consumer.
func (s series) consumer(ch chan<- prometheus.Metric, c *Consumer, retention time.Duration) {
	send := func(name string, v float64) { s.send(ch, name, v, c.Name) }
	sendAge := func(name string, d *time.Duration) {
		if d != nil {
			send(name, max(d.Seconds(), 0))
		}
	}
	sendKnown := func(name string, v *float64) {
		if v != nil {
			send(name, *v)
		}
	}
	send("position_high_id", float64(c.HighID))
	send("open_holes", float64(c.OpenHoles))
	sendAge("oldest_hole_seconds", c.OldestHole)
	send("consumer_owned", oneIf(c.Owned))
	send("consumer_epoch", float64(c.Epoch))
	if !c.Backfill { // it may wait for its turn, or for whoever began it
		sendAge("unowned_seconds", &c.Unowned)
	}
	send("consumer_paused", oneIf(c.Paused != ""))
	if c.Paused != "" {
		s.send(ch, "consumer_paused_reason", 1, c.Name, c.Paused)
	}
	sendAge("since_progress_seconds", c.SinceProgress)
	sendAge("since_poll_seconds", c.SincePoll)
	send("dead_letters_open", float64(c.DeadLettersOpen))
	send("dead_letters_held", float64(c.DeadLettersHeld))
	sendAge("dead_letter_oldest_seconds", c.DeadLetterOldest)
	if !c.Backfill { // the pruner is close behind it by nature
		send("losses_open", float64(c.LossesOpen))
		send("lost_events_open", float64(c.LostEvents))
	}
	if c.Backlog != nil {
		send("lag_events", float64(c.Backlog.Events))
		send("lag_exact", oneIf(c.Backlog.Exact))
	}
	if age, known := c.Backlog.Age(); known {
		send("lag_seconds", age.Seconds())
	}
	if left, known := c.Headroom(retention); known {
		send("headroom_seconds", left.Seconds())
		send("headroom_ratio", left.Seconds()/retention.Seconds())
	}
	if f := c.Forecast; f != nil {
		send("drain_events_per_second", f.Drain)
		sendKnown("arrival_events_per_second", f.Arrival)
		sendKnown("catch_up_seconds", f.CatchUp)
		sendKnown("loss_eta_seconds", f.LossETA)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
