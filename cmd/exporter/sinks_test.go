package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter/internal/chdb"
	"github.com/docket-exporter/exporter/internal/pgtest"
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

// A killed exporter sends the interrupted request again with the same token,
// and the server drops it: exact without FINAL.
func TestKilledOverClickHouse(t *testing.T) {
	server, err := chdb.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_SINK"] = "clickhouse"
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = server.DSN()
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_CREATE_TABLE"] = "true"
	s.env["CONSUMER_ANALYTICS_LINGER"] = "0s"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	s.killedWhileWriting(min(rounds(t), 2))
	want := s.table()
	got, err := server.Query(t.Context(), "SELECT count(), uniqExact(run_id, seq, event_id) FROM docket_events")
	if err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(got); len(fields) != 2 || fields[0] != fmt.Sprint(len(want)) || fields[1] != fields[0] {
		t.Fatalf("ClickHouse holds %q (rows, identities), the table %d", got, len(want))
	}
	t.Logf("%d events, exact without FINAL", len(want))
}

// One row that violates a constraint costs itself; a dropped column pauses.
func TestRefusedRowAndDroppedColumn(t *testing.T) {
	server, err := chdb.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_SINK"] = "clickhouse"
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = server.DSN()
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "1000"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	ddl := command(t, s.env, "check", "--print-ddl")
	ddl.want(t, exitOK, "ReplacingMergeTree")
	for _, sql := range []string{ddl.stdout, "ALTER TABLE docket_events ADD CONSTRAINT no_poison CHECK seq != 777"} {
		if _, err := server.Query(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.insert("a", 499)
	s.insert("b", 777)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE run_id = 'b' AND seq BETWEEN 1 AND 276`)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up")
	got, err := server.Query(t.Context(), "SELECT count(), uniqExact(run_id, seq), countIf(seq = 777) FROM docket_events")
	if err != nil || strings.Join(strings.Fields(got), " ") != "999 999 0" {
		t.Fatalf("ClickHouse holds %q, %v; want 999 rows once", got, err)
	}
	if at := s.status("analytics"); at.DeadLetters != 1 || at.Position.High != 1276 {
		t.Fatalf("status %+v", at)
	}
	if _, err := server.Query(t.Context(), "ALTER TABLE docket_events DROP CONSTRAINT no_poison"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Query(t.Context(), "ALTER TABLE docket_events RENAME COLUMN event_id TO gone"); err == nil {
		t.Fatal("a key column was renamed")
	}
	if _, err := server.Query(t.Context(), "DROP TABLE docket_events"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Query(t.Context(), "CREATE TABLE docket_events (run_id String, seq Int64) ENGINE = MergeTree ORDER BY (run_id, seq)"); err != nil {
		t.Fatal(err)
	}
	s.insert("a", 1)
	command(t, s.env, "run", "--once").want(t, exitPerson, "event_id")
	if at := s.status("analytics"); at.DeadLetters != 1 || at.Paused == nil || at.Position.High != 1276 {
		t.Fatalf("status %+v", at)
	}
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
