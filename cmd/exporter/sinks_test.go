package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter/internal/chdb"
	"github.com/docket-exporter/exporter/internal/docketsim"
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

// The server is killed, frozen and started again under a running exporter.
func TestClickHouseKilledAndFrozen(t *testing.T) {
	server, err := chdb.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_SINK"] = "clickhouse"
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = server.DSN()
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_CREATE_TABLE"] = "true"
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "50"
	s.env["CONSUMER_ANALYTICS_LINGER"] = "0s"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	writer := docketsim.NewWriter(pgtest.Pool(t, s.dsn+"&pool_max_conns=8"), "public")
	writer.Concurrency, writer.Rate, writer.SlowMax = 8, 300, 300*time.Millisecond
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Run(ctx) }()
	c := start(t, s.env, "", "run")
	for range min(rounds(t), 3) {
		before := s.high()
		pgtest.Until(t, 60*time.Second, "progress", func() bool { return s.high() > before })
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		before = s.high()
		pgtest.Until(t, 60*time.Second, "progress after the kill", func() bool { return s.high() > before })
		if err := server.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		count := writer.Stats().Events
		pgtest.Until(t, 30*time.Second, "Docket to write on", func() bool { return writer.Stats().Events > count+300 })
		if err := server.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(len(s.table()))
	pgtest.Eventually(t, 60*time.Second, func() error {
		got, err := server.Query(t.Context(), "SELECT count(), uniqExact(run_id, seq, event_id) FROM docket_events")
		if fields := strings.Fields(got); err != nil || len(fields) != 2 || fields[0] != want || fields[1] != want {
			return fmt.Errorf("ClickHouse holds %q (rows, identities), the table %s: %v", got, want, err)
		}
		return nil
	})
	c.signal(syscall.SIGTERM)
	if code := c.wait(30 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
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

// A server with too many parts gets at most one request a second, then fewer;
// nothing becomes a dead letter, and everything is in once it merges again.
func TestOverloadedClickHouse(t *testing.T) {
	server, err := chdb.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_SINK"] = "clickhouse"
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = server.DSN()
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "10"
	s.env["CONSUMER_ANALYTICS_LINGER"] = "0s"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	query := func(sql string) string {
		t.Helper()
		got, err := server.Query(t.Context(), sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return strings.TrimSpace(got)
	}
	query(command(t, s.env, "check", "--print-ddl").stdout)
	query("ALTER TABLE docket_events MODIFY SETTING parts_to_delay_insert = 1000, parts_to_throw_insert = 5")
	query("SYSTEM STOP MERGES docket_events")
	s.insert("r", 200)
	c := start(t, s.env, "", "run")
	overloaded := func() (n int) {
		text, err := scraped(c.stderr.String())
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(text, `docket_exporter_retries_total{consumer="analytics",reason="overloaded"} `)
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	pgtest.Until(t, 20*time.Second, "the first refusal", func() bool { return overloaded() > 0 })
	began, first := time.Now(), overloaded()
	pgtest.Until(t, 20*time.Second, "two further refusals", func() bool { return overloaded() >= first+2 })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("two further requests within %v", took)
	}
	query("SYSTEM START MERGES docket_events")
	query("OPTIMIZE TABLE docket_events FINAL")
	query("ALTER TABLE docket_events MODIFY SETTING parts_to_throw_insert = 300")
	pgtest.Until(t, 60*time.Second, "everything to be in", func() bool {
		return query("SELECT uniqExact(run_id, seq, event_id) FROM docket_events") == "200"
	})
	if at := s.status("analytics"); at.DeadLetters != 0 {
		t.Errorf("%d dead letters", at.DeadLetters)
	}
	c.signal(syscall.SIGTERM)
	c.wait(30 * time.Second)
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
