package main

import "time"

// sinkDefaults sets what is not set in vars and has another default for the
// consumer's sink than for others. Batches are as large as what the sink makes
// of one leaves the whole within 128 MiB, also with payloads of a megabyte.
func sinkDefaults(c *ConsumerConfig, vars map[string]string) {
	unless := func(name string) bool {
		_, given := vars[c.Prefix()+name]
		return !given
	}
	switch c.Sink {
	case SinkClickHouse: // every INSERT makes a part, and merging parts is most of what a row costs the server
		if unless("LINGER") {
			c.Linger = Duration(time.Second)
		}
		if unless("BATCH_EVENTS") {
			c.BatchEvents = 15_000
		}
		if unless("BATCH_BYTES") {
			c.BatchBytes = 8 << 20
		}
	case SinkPubSub: // many requests are under way at a time, each with a copy of its events
		if unless("BATCH_BYTES") {
			c.BatchBytes = 3 << 20
		}
	case SinkWebhook: // after a crash the whole batch is sent again, a request each
		if unless("BATCH_EVENTS") {
			c.BatchEvents = 500
		}
	}
}
