package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/chserver"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/relay"
)

// faultyServer is a ClickHouse that can be killed and frozen, behind a relay
// that can be cut.
type faultyServer struct {
	*relay.Relay
	dsn    string                             // through the relay
	kill   func() error                       // with SIGKILL
	start  func(context.Context) error        // what was killed
	signal func(syscall.Signal) error         // SIGSTOP and SIGCONT
	count  func() (rows, events int, _ error) // as its users see the table
}

func newFaultyServer(s *site) *faultyServer {
	w := s.toClickHouse()
	r := relay.New(s.t, w.Address())
	return &faultyServer{
		Relay: r, dsn: "http://" + r.Address() + "/default", kill: w.Kill, start: w.Start, signal: w.Signal,
		count: func() (rows, events int, err error) { // exact without FINAL
			got, err := w.Query(s.t.Context(), "SELECT count(), uniqExact(run_id, seq, event_id) FROM docket_events")
			if err != nil {
				return 0, 0, err
			}
			_, err = fmt.Sscan(got, &rows, &events)
			return rows, events, err
		},
	}
}

// oldFaultyServer has a user's own table, and no tokens.
func oldFaultyServer(s *site) *faultyServer {
	server, err := chserver.Start(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = server.Stop() })
	conn, err := server.Connect()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Exec(s.t.Context(), `CREATE TABLE docket_events (run_id String, seq UInt64, event_id Int64, type String, payload String,
		occurred_at DateTime) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(occurred_at) ORDER BY (run_id, seq, event_id)`); err != nil {
		s.t.Fatal(err)
	}
	r := relay.New(s.t, server.Address())
	return &faultyServer{
		Relay: r, dsn: "clickhouse://" + r.Address() + "/default", kill: server.Kill, start: server.Start, signal: server.Signal,
		count: func() (int, int, error) { // exact under FINAL
			var rows, events uint64
			err := conn.QueryRow(s.t.Context(), "SELECT count(), uniqExact(run_id, seq, event_id) FROM docket_events FINAL").Scan(&rows, &events)
			return int(rows), int(events), err
		},
	}
}

// pause is how long the server is frozen: a few seconds, or CLICKHOUSE_PAUSE.
func pause(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CLICKHOUSE_PAUSE")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CLICKHOUSE_PAUSE: %v", err)
	}
	return d
}

// The socket to the server is cut, the server killed and frozen, each in the
// middle of an insert of a running exporter while Docket writes: nothing is
// missing afterwards, and nothing doubled.
func TestClickHouseFailsInMidInsert(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		open func(*site) *faultyServer
	}{{"26.7", newFaultyServer}, {"18.16", oldFaultyServer}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			server := c.open(s)
			s.insertsInto(server.dsn)
			s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "100"
			writer, wait := s.writes()
			e := start(t, s.env, "", "run")
			rng := rand.New(rand.NewPCG(1, 2))
			for range min(rounds(t), 2) {
				for _, f := range []func(*testing.T, *faultyServer, int64){cutInMidInsert, killedInMidInsert, frozenInMidInsert} {
					before := s.high()
					pgtest.Until(t, 60*time.Second, "progress", func() bool { return s.high() > before })
					f(t, server, 1+rng.Int64N(20_000))
					before, count := s.high(), writer.Stats().Events
					pgtest.Until(t, 60*time.Second, "progress after the fault", func() bool {
						return s.high() > before && writer.Stats().Events > count
					})
				}
			}
			wait()
			want := len(s.table())
			pgtest.Eventually(t, 60*time.Second, func() error {
				rows, events, err := server.count()
				if err == nil && (rows != want || events != want) {
					err = fmt.Errorf("%d rows of %d events", rows, events)
				}
				return err
			})
			t.Logf("%d events", want)
			if at := s.status("analytics"); at.DeadLetters != 0 || at.Paused != nil {
				t.Errorf("status %+v", at)
			}
			e.signal(syscall.SIGTERM)
			if code := e.wait(30 * time.Second); code != exitOK {
				t.Fatalf("exit code %d\n%s", code, e.stderr)
			}
		})
	}
}

// writes lets Docket write until the test calls stop.
func (s *site) writes() (writer *docketsim.Writer, stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	writer = docketsim.NewWriter(pgtest.Pool(s.t, s.dsn+"&pool_max_conns=8"), "public")
	writer.Concurrency, writer.Rate, writer.SlowMax = 8, 300, 300*time.Millisecond
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Run(ctx) }()
	return writer, func() {
		s.t.Helper()
		cancel()
		if err := <-wrote; err != nil {
			s.t.Fatal(err)
		}
	}
}

// inMidInsert does what it is told when so many bytes have come to the server.
func inMidInsert(t *testing.T, s *faultyServer, bytes int64, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	s.After(bytes, func() { done <- do() })
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(60 * time.Second):
		t.Fatalf("no %d bytes have come to the server", bytes)
	}
}

func cutInMidInsert(t *testing.T, s *faultyServer, bytes int64) {
	inMidInsert(t, s, bytes, func() error { s.Cut(); return nil })
}

func killedInMidInsert(t *testing.T, s *faultyServer, bytes int64) {
	inMidInsert(t, s, bytes, func() error {
		defer s.Cut()
		return s.kill()
	})
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func frozenInMidInsert(t *testing.T, s *faultyServer, bytes int64) {
	inMidInsert(t, s, bytes, func() error { return s.signal(syscall.SIGSTOP) })
	over := time.After(pause(t))
	select {
	case <-over:
	case <-t.Context().Done():
	}
	if err := errors.Join(s.signal(syscall.SIGCONT), t.Context().Err()); err != nil {
		t.Fatal(err)
	}
}
