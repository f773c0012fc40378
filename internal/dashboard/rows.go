package dashboard

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// row is a heading and the panels below it.
type row struct {
	title  string
	panels []cog.Builder[dashboard.Panel]
}

func rows() []row {
	return []row{
		{"Overview", overview()},
		{"Headroom and forecast", headroom()},
		{"Lag and progress", lag()},
		{"Throughput and latency", flow()},
		{"Open ids", holes()},
		{"Dead letters and losses", losses()},
		{"Retention and guard", guard()},
		{"Owners and pauses", owners()},
	}
}

func overview() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		number("Processes", "Exporters that Prometheus sees.", "count(docket_exporter_build_info)", 1e9).
			Thresholds(steps(dashboard.ThresholdsModeAbsolute, "red", step{1, "green"})),
		number("Least retention left", "Of the consumer that is nearest to losing events.", "min("+state("headroom_ratio")+")", 1).
			Unit("percentunit").Thresholds(headroomColours()),
		number("Without owner", "Consumers that no process works on.", "count("+state("consumer_owned")+") - sum("+state("consumer_owned")+")", 1),
		number("Paused", "Consumers that wait for a person.", "sum("+state("consumer_paused")+")", 1),
		number("Dead letters", "Events put aside that wait for a person.", "sum("+state("dead_letters_open")+")", 1),
		number("Losses", "Loss records that nobody has taken note of.", "sum("+state("losses_open")+")", 1),
		consumerTable(),
	}
}

func headroom() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Retention left", "Share of the retention until Docket may delete the oldest undelivered event. Warned of at a half, paged at a fifth.", "percentunit",
			perConsumer(state("headroom_ratio"))).
			Min(0).Max(1).Thresholds(headroomColours()).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)),
		graph("Countdown", "Time until Docket may delete the oldest undelivered event; negative when it may already.", "dtdurations",
			perConsumer(state("headroom_seconds"))),
		graph("Events lost in", "When the retention reaches the position at the present rates; nothing where it never does.", "dtdurations",
			perConsumer(state("loss_eta_seconds"))),
		graph("Caught up in", "At the present rates; nothing where the consumer loses ground.", "dtdurations",
			perConsumer(state("catch_up_seconds"))),
		graph("Arriving", "Events that are written for the consumer.", "eps", perConsumer(state("arrival_events_per_second"))),
		graph("Draining", "Events that the consumer gets done. Below what arrives it loses ground.", "eps", perConsumer(state("drain_events_per_second"))),
	}
}

func lag() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Events behind", "Committed events that are not delivered; above 100,000 an upper bound.", "short", perConsumer(state("lag_events"))),
		graph("Time behind", "Age of the oldest committed event that is not delivered.", "dtdurations", perConsumer(state("lag_seconds"))),
		graph("Since progress", "Time since the consumer last had an event accepted, or had nothing to do.", "dtdurations", perConsumer(state("since_progress_seconds"))),
		graph("Since the last read", "Time since the owner last read Docket's tables. Grows while a batch waits for its sink.", "dtdurations", perConsumer(state("since_poll_seconds"))),
		graph("Lag is counted", "1 where the events behind were counted, 0 where they are an upper bound.", "short", perConsumer(state("lag_exact"))).Min(0).Max(1),
		graph("Position", "Id up to which everything is done, but for open ids.", "locale", perConsumer(state("position_high_id"))),
	}
}

func flow() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Accepted", "Events that the sink has durably accepted.", "eps", perConsumer(rate("events_accepted_total"))),
		graph("Batches", "Batches that the sink has accepted.", "ops", perConsumer(rate("batches_total"))),
		graph("Tried again", "What was repeated, by reason. Steady lines are trouble of a database or a sink.", "ops",
			query{byReason("retries_total"), "{{consumer}} {{reason}}"}),
		graph("Delivery, median", "From beginning a batch to recording its acceptance.", "s", perConsumer(quantile("0.5"))),
		graph("Delivery, 95 %", "From beginning a batch to recording its acceptance.", "s", perConsumer(quantile("0.95"))),
		graph("Delivery, 99 %", "From beginning a batch to recording its acceptance.", "s", perConsumer(quantile("0.99"))),
	}
}

func holes() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Open ranges", "Ranges of ids that were handed out and are not committed yet. A few that come and go are normal; at 10,000 reading stops.", "short", perConsumer(state("open_holes"))),
		graph("Oldest", "How long the oldest of them has been open: the age of somebody's transaction.", "dtdurations", perConsumer(state("oldest_hole_seconds"))),
		graph("Settled", "Ids that were filled late, and ids that never appear. Both are normal. Late rows never are.", "ops",
			query{rate("holes_filled_total"), "{{consumer}} filled"}, query{rate("ids_dead_total"), "{{consumer}} dead"}, query{rate("late_rows_total"), "{{consumer}} late rows"}),
	}
}

func losses() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Dead letters", "Events put aside that wait for a person, and later events of their runs that wait for them.", "short",
			query{state("dead_letters_open"), "{{consumer}} open"}, query{state("dead_letters_held"), "{{consumer}} held"}),
		graph("Oldest dead letter", "How long the oldest one waits; nothing where there is none.", "dtdurations", perConsumer(state("dead_letter_oldest_seconds"))),
		graph("New dead letters", "By class.", "ops", query{byReason("dead_letters_total"), "{{consumer}} {{reason}}"}),
		graph("Loss records", "Ranges in which events are, or may be, lost, and that nobody has taken note of.", "short", perConsumer(state("losses_open"))),
		graph("Events lost at most", "Upper bound of the events in them.", "short", perConsumer(state("lost_events_open"))),
		graph("Panics", "Contained in the consumer. Each is a bug.", "ops", perConsumer(rate("panics_total"))),
	}
}

func guard() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Retention", "What the exporter was told, and the age of the oldest event in Docket's table.", "dtdurations",
			query{"max(docket_exporter_retention_seconds)", "told"}, query{"max(docket_exporter_retention_observed_seconds)", "observed"}),
		graph("Retention contradicted", "1 while the table contradicts what the exporter was told.", "short", query{"max(docket_exporter_retention_mismatch)", "contradicted"}).Min(0).Max(1),
		graph("Guard", "1 while the exporter keeps Docket from deleting, or while it was refused to.", "short",
			query{"max(docket_exporter_retention_guard_held)", "held"}, query{"max(docket_exporter_retention_guard_refused)", "refused"}).Min(0).Max(1),
		graph("Guard, time held", "Share of the time in which Docket's pruner was kept waiting.", "percentunit",
			query{"max(rate(docket_exporter_retention_guard_held_seconds_total[$__rate_interval]))", "held"}).Min(0),
	}
}

func owners() []cog.Builder[dashboard.Panel] {
	return []cog.Builder[dashboard.Panel]{
		graph("Owned", "1 while a process owns the consumer.", "short", perConsumer(state("consumer_owned"))).Min(0).Max(1),
		graph("Without owner for", "0 while a process owns the consumer.", "dtdurations", perConsumer(state("unowned_seconds"))),
		graph("Take-overs", "How often another process, or the same one again, took the consumer within ten minutes.", "short",
			perConsumer("max by (consumer) (changes("+of("consumer_epoch")+"[10m]))")),
		graph("Paused", "By reason; nothing while it is not.", "short",
			query{"max by (consumer, reason) (" + of("consumer_paused_reason") + ")", "{{consumer}} {{reason}}"}).Min(0).Max(1),
		graph("State read", "Age of what the freshest process knows of all this.", "dtdurations",
			query{"time() - max(docket_exporter_lag_collected_timestamp_seconds)", "age"}),
		graph("Source read", "Age of the last successful read of Docket's tables, by the owner's clock.", "dtdurations",
			perConsumer("time() - "+state("last_successful_poll_timestamp_seconds"))),
	}
}
