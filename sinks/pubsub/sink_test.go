package pubsub

import (
	"encoding/json"
	"testing"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

func TestAcceptance(t *testing.T) {
	server := newServer(t)
	sinktest.Run(t, sinktest.Harness{
		Open: func(t *testing.T, consumer string) exporter.Sink {
			server.create("topic-" + consumer)
			return open(t, Config{Topic: "topic-" + consumer})
		},
		Read: func(t *testing.T, consumer string) []sinktest.Record { return read(t, server, "topic-"+consumer) },
		Break: func(*testing.T) func() {
			return server.breakDown()
		},
	})
}

// read is a subscriber: what it deduplicates by is in the attributes.
func read(t *testing.T, s *server, topic string) []sinktest.Record {
	t.Helper()
	var records []sinktest.Record
	for _, m := range s.messages(topic) {
		var head struct {
			RunID   string `json:"run_id"`
			Seq     int64  `json:"seq"`
			EventID int64  `json:"event_id"`
		}
		if err := json.Unmarshal(m.Data, &head); err != nil {
			t.Fatalf("message %s: %v", m.ID, err)
		}
		records = append(records, sinktest.Record{
			Identity: exporter.Identity{RunID: head.RunID, Seq: head.Seq, EventID: head.EventID},
			Key:      m.Attributes["idempotency_key"], Body: m.Data,
		})
	}
	return records
}
