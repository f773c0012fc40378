package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/chdb"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// warehouse is a ClickHouse 26.7 with the default table.
type warehouse struct {
	*chdb.Server
	t *testing.T
}

// toClickHouse makes ClickHouse the sink of analytics, with the default table
// made by hand, and returns its server.
func (s *site) toClickHouse() *warehouse {
	s.t.Helper()
	w := s.toEmptyClickHouse()
	ddl := command(s.t, s.env, "check", "--print-ddl")
	ddl.want(s.t, exitOK, "ReplacingMergeTree")
	w.query(ddl.stdout)
	return w
}

// toEmptyClickHouse does so without a table.
func (s *site) toEmptyClickHouse() *warehouse {
	s.t.Helper()
	server, err := chdb.Start(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = server.Stop() })
	s.insertsInto(server.DSN())
	return &warehouse{Server: server, t: s.t}
}

// insertsInto makes analytics insert, without waiting for batches to fill up.
func (s *site) insertsInto(dsn string) {
	s.env["CONSUMER_ANALYTICS_SINK"] = "clickhouse"
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = dsn
	s.env["CONSUMER_ANALYTICS_LINGER"] = "0s"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
}

func (w *warehouse) query(sql string) string {
	w.t.Helper()
	got, err := w.Query(w.t.Context(), sql)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSpace(got)
}

// rows counts rows, and the events among them.
func (w *warehouse) rows(from string) (rows, events int) {
	w.t.Helper()
	got := w.query("SELECT count(), uniqExact(run_id, seq, event_id) FROM " + from)
	if _, err := fmt.Sscan(got, &rows, &events); err != nil {
		w.t.Fatalf("%q: %v", got, err)
	}
	return rows, events
}

func (w *warehouse) wantRows(from string, rows, events int) {
	w.t.Helper()
	if r, e := w.rows(from); r != rows || e != events {
		w.t.Fatalf("%s holds %d rows of %d events, want %d of %d", from, r, e, rows, events)
	}
}

// A killed exporter sends the interrupted request again with the same token,
// and the server drops it: exact without FINAL.
func TestKilledOverClickHouse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.toClickHouse()
	s.killedWhileWriting(min(rounds(t), 2))
	all := len(s.table())
	w.wantRows("docket_events", all, all)
	t.Logf("%d events, exact without FINAL", all)
}

// A position that a person sets back makes rows arrive again, under other
// tokens; FINAL is exact.
func TestRewindOverClickHouse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.toClickHouse()
	w.query("SYSTEM STOP MERGES docket_events")
	s.insert("a", 200)
	s.insert("b", 100)
	command(t, s.env, "run", "--once").want(t, exitOK)
	w.wantRows("docket_events", 300, 300)
	store := cursor.NewStore(s.pool, nil, "docket_export")
	for _, to := range []int64{100, 0} {
		if err := store.Set(t.Context(), "analytics", exporter.Position{High: to}, false, "a person", "test"); err != nil {
			t.Fatal(err)
		}
		before, _ := w.rows("docket_events")
		command(t, s.env, "run", "--once").want(t, exitOK)
		w.wantRows("docket_events", before+300-int(to), 300)
		w.wantRows("docket_events FINAL", 300, 300)
	}
	if at := s.status("analytics"); at.Position.High != 300 || at.DeadLetters != 0 {
		t.Errorf("status %+v", at)
	}
}

// countInserts puts a proxy in front of the server that counts what inserts.
func (s *site) countInserts(w *warehouse) *atomic.Int64 {
	s.t.Helper()
	to, err := url.Parse("http://" + w.Address())
	if err != nil {
		s.t.Fatal(err)
	}
	var inserts atomic.Int64
	pass := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Query().Get("query"), "INSERT") {
			inserts.Add(1)
		}
		pass.ServeHTTP(answer, r)
	}))
	s.t.Cleanup(front.Close)
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = front.URL + "/default"
	return &inserts
}

// One row of a thousand that violates a constraint costs itself and a few
// inserts, wherever it is.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.toClickHouse()
	inserts := s.countInserts(w)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	for i, at := range []int{0, 499, 999} {
		s.insert("0", 1) // comes first of a thousand runs with an event each
		pgtest.Exec(t, s.pool, `WITH names AS (SELECT format('%s-%s', $1::int, lpad(n::text, 3, '0')) AS name FROM generate_series(1, 999) n),
			runs AS (INSERT INTO docket_runs (run_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
				SELECT name, graph_id, graph_hash, status, state, gen_random_uuid(), claimed_at, inserted_at, started_at, updated_at
				FROM names, docket_runs WHERE run_id = '0')
			INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
				SELECT name, 1, e.type, 0, e.payload, e.metadata, now(), clock_timestamp()
				FROM names, docket_events e WHERE run_id = '0' AND seq = 1 ORDER BY name`, i)
		poison := fmt.Sprintf("%d-%03d", i, at)
		if at == 0 {
			poison = "0"
		}
		w.query(fmt.Sprintf("ALTER TABLE docket_events ADD CONSTRAINT poison_%d CHECK NOT (run_id = '%s' AND seq = 1)", i, poison))
		inserts.Store(0)
		command(t, s.env, "run", "--once").want(t, exitOK, "caught up")
		w.wantRows("docket_events", 999*(i+1), 999*(i+1))
		if at := s.status("analytics"); at.DeadLetters != int64(i+1) || at.Position.High != int64(1000*(i+1)) {
			t.Errorf("at %d: status %+v", i, at)
		}
		n := inserts.Load()
		if t.Logf("at %d: %d inserts", at, n); n > 12 {
			t.Errorf("at %d: %d inserts, want one and at most 11 further ones", at, n)
		}
	}
}

// A table that has lost a column pauses the consumer, and nothing is put aside.
func TestDroppedColumn(t *testing.T) {
	t.Parallel()
	for _, change := range []struct{ name, sql, says string }{
		{"that tells events apart", "DROP TABLE docket_events; CREATE TABLE docket_events (run_id String, seq Int64) ENGINE = MergeTree ORDER BY (run_id, seq)", "event_id"},
		{"table", "DROP TABLE docket_events", "docket_events"},
	} {
		t.Run(change.name, func(t *testing.T) {
			s := newSite(t)
			w := s.toClickHouse()
			s.insert("a", 5)
			command(t, s.env, "run", "--once").want(t, exitOK)
			for sql := range strings.SplitSeq(change.sql, ";") {
				w.query(sql)
			}
			s.insert("a", 1)
			command(t, s.env, "run", "--once").want(t, exitPerson, change.says)
			if at := s.status("analytics"); at.DeadLetters != 0 || at.Paused == nil || at.Position.High != 5 {
				t.Fatalf("status %+v", at)
			}
		})
	}
	t.Run("while it runs", func(t *testing.T) {
		s := newSite(t)
		w := s.toClickHouse()
		s.insert("a", 5)
		c := start(t, s.env, "", "run")
		s.awaitHigh(5)
		w.query("ALTER TABLE docket_events DROP COLUMN metadata")
		s.insert("a", 5)
		pgtest.Until(t, 20*time.Second, "the pause", func() bool { return s.status("analytics").Paused != nil })
		if at := s.status("analytics"); at.DeadLetters != 0 || at.Position.High != 5 || !strings.Contains(at.Paused.Detail, "metadata") {
			t.Errorf("status %+v, paused %+v", at, at.Paused)
		}
		w.query("ALTER TABLE docket_events ADD COLUMN metadata String")
		command(t, s.env, "consumer", "resume", "analytics", "--reason", "the column is back").want(t, exitOK)
		s.awaitHigh(10)
		w.wantRows("docket_events", 10, 10)
		c.signal(syscall.SIGTERM)
		c.wait(30 * time.Second)
	})
}

func (s *site) awaitHigh(high int64) {
	s.t.Helper()
	pgtest.Until(s.t, 30*time.Second, fmt.Sprint("the position ", high), func() bool { return s.high() == high })
}

// A server with too many parts gets at most one request a second, then fewer;
// nothing becomes a dead letter, and everything is in once it merges again.
func TestOverloadedClickHouse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.toClickHouse()
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "10"
	w.query("ALTER TABLE docket_events MODIFY SETTING parts_to_delay_insert = 1000, parts_to_throw_insert = 5")
	w.query("SYSTEM STOP MERGES docket_events")
	inserts := s.countInserts(w)
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
	began, first := time.Now(), inserts.Load()
	pgtest.Until(t, 20*time.Second, "two further requests", func() bool { return inserts.Load() >= first+2 })
	if took := time.Since(began); took < 1500*time.Millisecond { // the first refusal may have been seen late
		t.Errorf("two further requests within %v", took)
	}
	w.query("SYSTEM START MERGES docket_events")
	w.query("OPTIMIZE TABLE docket_events FINAL")
	w.query("ALTER TABLE docket_events MODIFY SETTING parts_to_throw_insert = 300")
	pgtest.Until(t, 60*time.Second, "everything to be in", func() bool {
		_, events := w.rows("docket_events")
		return events == 200
	})
	if at := s.status("analytics"); at.DeadLetters != 0 {
		t.Errorf("%d dead letters", at.DeadLetters)
	}
	c.signal(syscall.SIGTERM)
	c.wait(30 * time.Second)
}
