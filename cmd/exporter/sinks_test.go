package main

import (
	"encoding/json"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter/internal/verdict"
)

// table returns the identities of all committed events.
func (s *site) table() map[string]bool {
	s.t.Helper()
	rows, err := verdict.Table(s.t.Context(), s.pool, "public", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range rows {
		all[r.Key()] = true
	}
	return all
}

// Every event reaches the topic, and in seq order the first time it does.
func TestKilledOverPubSub(t *testing.T) {
	server := pstest.NewServer()
	t.Cleanup(func() { _ = server.Close() })
	s := newSite(t)
	if _, err := server.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/p/topics/events"}); err != nil {
		t.Fatal(err)
	}
	s.env["CONSUMER_ANALYTICS_SINK"] = "pubsub"
	s.env["CONSUMER_ANALYTICS_PUBSUB_PROJECT"] = "p"
	s.env["CONSUMER_ANALYTICS_PUBSUB_TOPIC"] = "events"
	s.env["PUBSUB_EMULATOR_HOST"] = server.Addr
	t.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	s.killedWhileWriting(min(rounds(t), 2))
	want := s.table()
	seen, next := map[string]bool{}, map[string]int64{}
	for _, m := range server.Messages() {
		var e struct {
			RunID string `json:"run_id"`
			Seq   int64  `json:"seq"`
			Key   string `json:"idempotency_key"`
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if seen[e.Key] {
			continue // sent again after a crash
		}
		if next[e.RunID]++; e.Seq != next[e.RunID] {
			t.Fatalf("%s/%d came when %d was due", e.RunID, e.Seq, next[e.RunID])
		}
		seen[e.Key] = true
	}
	for key := range want {
		if !seen[key] {
			t.Fatalf("an event is missing: %d of %d came", len(seen), len(want))
		}
	}
	t.Logf("%d events, %d messages", len(want), len(server.Messages()))
}
