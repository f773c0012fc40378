package clickhouse

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestTypesOfColumns fills a table of every type that a user may have chosen.
func TestTypesOfColumns(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	exec(t, conn, "CREATE TABLE `"+table+"` ("+
		"run_id LowCardinality(String), seq UInt16, event_id String, type FixedString(20), step UInt8,"+
		"node_id FixedString(8), channel_id Nullable(FixedString(12)), task_id LowCardinality(String), tenant_id String,"+
		"payload Nullable(String), metadata Nullable(String), occurred_at DateTime('Europe/Berlin'), inserted_at DateTime64(3),"+
		"idempotency_key FixedString(64), extra Array(String) DEFAULT ['x'], length UInt64 MATERIALIZED length(run_id)"+
		") ENGINE = MergeTree ORDER BY seq")
	at := time.Date(2026, 11, 29, 10, 11, 12, 345678000, time.UTC)
	full := exporter.Event{
		ID: -7, RunID: "r", Seq: 65535, Type: "run_started", Step: 255, OccurredAt: at, InsertedAt: at,
		NodeID: some("node"), ChannelID: some("channel"), TaskID: some("task"), TenantID: some("tenant"), Payload: []byte(`{"a":1}`), Metadata: []byte(`{}`),
	}
	empty := exporter.Event{ID: 8, RunID: "", Seq: 0, OccurredAt: at, InsertedAt: at}
	s := open(t, Config{DSN: newServer.DSN(), Table: table})
	deliver(t, s, exporter.Batch{UID: "u", Number: 1, Events: []exporter.Event{empty, full}})
	got, err := newServer.Query(t.Context(), "SELECT toString(tuple(run_id, seq, event_id, toStringCutToZero(type), step, toStringCutToZero(node_id), "+
		"toStringCutToZero(assumeNotNull(channel_id)), isNull(channel_id), task_id, tenant_id, payload, metadata, toTimeZone(occurred_at, 'UTC'), inserted_at, extra, length)) "+
		"FROM `"+table+"` ORDER BY seq FORMAT TSVRaw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "('',0,'8','',0,'','',1,'','',NULL,NULL,'2026-11-29 10:11:12','2026-11-29 10:11:12.345',['x'],0)\n" +
		`('r',65535,'-7','run_started',255,'node','channel',0,'task','tenant','{"a":1}','{}','2026-11-29 10:11:12','2026-11-29 10:11:12.345',['x'],1)` + "\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := number(t, conn, "SELECT count() FROM `"+table+"` WHERE idempotency_key = '"+full.Identity().Key()+"'"); n != 1 {
		t.Errorf("%d rows have the key, want 1", n)
	}
}

// TestNothingButNulls has a Nullable(JSON) column of which a batch fills nothing.
func TestNothingButNulls(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	exec(t, conn, "CREATE TABLE `"+table+"` (run_id String, seq Int64, event_id Int64, payload Nullable(JSON)) ENGINE = MergeTree ORDER BY seq")
	b := sinktest.Batch(1, 2, 5)
	for i := range b.Events {
		b.Events[i].Payload = nil
	}
	deliver(t, open(t, Config{DSN: newServer.DSN(), Table: table}), b)
	if n := number(t, conn, "SELECT countIf(isNull(payload)) FROM `"+table+"`"); n != 10 {
		t.Errorf("%d rows with NULL, want 10", n)
	}
}

func some(s string) exporter.Text { return exporter.Text{Value: s, Present: true} }

// TestValuesThatDoNotFit are rejected by name, and say nothing about the others.
func TestValuesThatDoNotFit(t *testing.T) {
	conn, table := connect(t, oldServer.DSN()), tableOf(t, "events")
	exec(t, conn, "CREATE TABLE "+table+" (run_id FixedString(16), seq UInt8, event_id Int64, payload String, occurred_at DateTime) ENGINE = MergeTree ORDER BY seq")
	s, b := open(t, Config{DSN: oldServer.DSN(), Table: table, MaxEventBytes: 1000}), sinktest.Batch(1, 2, 5)
	want := map[int]string{1: "FixedString(16)", 3: "seq UInt8", 5: "occurred_at DateTime"}
	b.Events[1].RunID = strings.Repeat("secret", 3)
	b.Events[3].Seq = 256
	b.Events[5].OccurredAt = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)
	wantRejected(t, s.Deliver(t.Context(), b), "unfit", b, want)

	b = sinktest.Batch(2, 2, 5)
	b.Events[4].Payload = []byte(`"` + strings.Repeat("x", 1001-2-len(b.Events[4].Metadata)) + `"`)
	wantRejected(t, s.Deliver(t.Context(), b), "too_large", b, map[int]string{4: "1001 bytes"})
	b.Events[4].Payload = b.Events[4].Payload[1:]
	deliver(t, s, b)
	if n := number(t, conn, "SELECT count() FROM "+table); n != 10 {
		t.Errorf("%d rows, want 10", n)
	}
}

func wantRejected(t *testing.T, err error, class string, b exporter.Batch, want map[int]string) {
	t.Helper()
	rejected, ok := errors.AsType[*exporter.RejectedError](err)
	if !ok || len(rejected.Rejections) != len(want) {
		t.Fatalf("got %v, want %d events to be rejected", err, len(want))
	}
	for i, text := range want {
		found := false
		for _, r := range rejected.Rejections {
			if r.Event.Identity() == b.Events[i].Identity() {
				found = r.Class == class && strings.Contains(r.Reason, text) && !strings.Contains(r.Reason, "secret")
			}
		}
		if !found {
			t.Errorf("event %d is not rejected as %s for %q: %v", i, class, text, rejected.Rejections)
		}
	}
}

func TestParseType(t *testing.T) {
	for text, want := range map[string]columnType{
		"String":                                 {base: "String"},
		"LowCardinality(Nullable(String))":       {base: "String", nullable: true, interned: true},
		"Nullable(FixedString(64))":              {base: "FixedString", size: 64, nullable: true},
		"DateTime64(6, 'UTC')":                   {base: "DateTime64"},
		"LowCardinality(DateTime('Asia/Tokyo'))": {base: "DateTime", interned: true},
		"JSON(max_dynamic_paths=8)":              {base: "JSON"},
		"Array(String)":                          {base: "Array"},
	} {
		if got := parseType(text); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no DSN":      {Config{}, "…_CLICKHOUSE_DSN"},
		"no host":     {Config{DSN: "clickhouse:///x"}, "…_CLICKHOUSE_DSN"},
		"bad timeout": {Config{DSN: "clickhouse://h:9000?dial_timeout=soon"}, "dial timeout"},
		"table":       {Config{DSN: "clickhouse://h:9000", Table: "a`; DROP TABLE b"}, "…_CLICKHOUSE_TABLE"},
		"half a pair": {Config{DSN: "clickhouse://h:9000", TLS: TLS{CertFile: "c"}}, "…_CLICKHOUSE_TLS_KEY_FILE"},
		"no CA":       {Config{DSN: "clickhouse://h:9000", TLS: TLS{CAFile: "/nowhere"}}, "…_CLICKHOUSE_TLS_CA_FILE"},
		"two minds":   {Config{DSN: "clickhouse://h:9000?secure=true&skip_verify=true", TLS: TLS{CAFile: "/nowhere"}}, "skip_verify"},
	} {
		if _, err := Open(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %s", name, err, c.want)
		}
	}
}
