package main

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
)

// toPubSub makes a topic the sink of analytics.
func (s *site) toPubSub() *pstest.Server {
	s.t.Helper()
	server := pstest.NewServer()
	s.t.Cleanup(func() { _ = server.Close() })
	if _, err := server.GServer.CreateTopic(s.t.Context(), &pubsubpb.Topic{Name: "projects/p/topics/events"}); err != nil {
		s.t.Fatal(err)
	}
	s.env["CONSUMER_ANALYTICS_SINK"] = "pubsub"
	s.env["CONSUMER_ANALYTICS_PUBSUB_PROJECT"] = "p"
	s.env["CONSUMER_ANALYTICS_PUBSUB_TOPIC"] = "events"
	s.env["PUBSUB_EMULATOR_HOST"] = server.Addr
	s.t.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	return server
}

// published returns the number of messages for each identity, and fails where a
// run's events came out of order the first time.
func published(t *testing.T, server *pstest.Server) map[string]int {
	t.Helper()
	count, next := map[string]int{}, map[string]int64{}
	for _, m := range server.Messages() {
		var e struct {
			RunID string `json:"run_id"`
			Seq   int64  `json:"seq"`
			Key   string `json:"idempotency_key"`
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if count[e.Key]++; count[e.Key] > 1 {
			continue
		}
		if next[e.RunID]++; e.Seq != next[e.RunID] {
			t.Fatalf("%s/%d came when %d was due", e.RunID, e.Seq, next[e.RunID])
		}
	}
	return count
}

// Killed at random, the same command goes on: nothing is missing, no kill costs
// more than a batch, and the live cursor, which is guarded, stays where it is.
func TestBackfillKilledAtRandom(t *testing.T) {
	s := newSite(t)
	server := s.toPubSub()
	all := s.load(8_000)
	const batch = 200
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "200"
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	command(t, s.env, "run", "--once").want(t, exitOK)
	defer s.guardLive()()
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history"}
	sent := func() int64 {
		return pgtest.Value[int64](t, s.pool, `SELECT coalesce(max(events_accepted), 0) FROM docket_export.consumers WHERE name = 'history'`)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	kills := 0
	for ; kills < 4; kills++ {
		before := sent()
		c := start(t, s.env, "", ask...)
		more := before + 1 + rng.Int64N(1200)
		pgtest.Until(t, 30*time.Second, "progress", func() bool { return sent() >= more })
		c.kill()
	}
	command(t, s.env, ask...).want(t, exitOK, "history goes on at", "is finished")
	count := published(t, server)
	messages := 0
	for key := range s.table() {
		if count[key] == 0 {
			t.Fatalf("an event is missing: %d of %d came", len(count), all)
		}
		messages += count[key]
	}
	if again := messages - all; again > kills*batch {
		t.Errorf("%d events came again after %d kills of batches of %d", again, kills, batch)
	}
	if len(count) != all || sent() != int64(all) {
		t.Errorf("%d identities, %d recorded, of %d events", len(count), sent(), all)
	}
	t.Logf("%d events, %d messages, %d kills", all, messages, kills)
}

// What both the consumer and a backfill of it have sent is one event to
// whoever looks at identities.
func TestBackfillOverlapsWithLive(t *testing.T) {
	const events = 3000
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history"}
	run := func(t *testing.T, s *site) int {
		t.Helper()
		all := s.load(events)
		command(t, s.env, "run", "--once").want(t, exitOK)
		defer s.guardLive()()
		command(t, s.env, ask...).want(t, exitOK, "is finished")
		return all
	}
	t.Run("files", func(t *testing.T) {
		s := newSite(t)
		all := run(t, s)
		for _, name := range []string{"analytics", "history"} {
			r, err := verdict.Read(t.Context(), s.pool, "public", nil, s.env["CONSUMER_ANALYTICS_FILE_DIR"], name)
			if err != nil || !r.Clean() || r.Events != all {
				t.Errorf("%s: %s, %v\n%v", name, r, err, r.Examples)
			}
		}
	})
	t.Run("clickhouse", func(t *testing.T) {
		s := newSite(t)
		w := s.toClickHouse()
		w.query("SYSTEM STOP MERGES docket_events")
		all := run(t, s)
		w.wantRows("docket_events", 2*all, all)
		w.wantRows("docket_events FINAL", all, all)
	})
	t.Run("pubsub", func(t *testing.T) {
		s := newSite(t)
		server := s.toPubSub()
		all := run(t, s)
		count := published(t, server)
		for key, n := range count {
			if n != 2 {
				t.Fatalf("%s came %d times", key, n)
			}
		}
		if len(count) != all {
			t.Errorf("%d identities of %d events", len(count), all)
		}
	})
}
