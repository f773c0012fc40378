package clickhouse

import (
	"context"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/relay"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// testServer is one of the two servers with how a table of it is made and counted.
type testServer struct {
	name, address string
	dsn           func(address string) string
	make          func(t *testing.T, conn driver.Conn, table string)
	final         string // appended to a table that is counted
	kill          func() error
	start         func(context.Context) error
}

func servers() []testServer {
	return []testServer{
		{
			name: "new", address: newServer.Address(),
			dsn: func(address string) string { return "http://" + address + "/default" },
			make: func(t *testing.T, conn driver.Conn, table string) {
				exec(t, conn, DDL(table, DDLOptions{}))
			},
			kill: newServer.Kill, start: newServer.Start,
		},
		{
			name: "old", address: oldServer.Address(),
			dsn:  func(address string) string { return "clickhouse://" + address + "/default" },
			make: ownTable, final: " FINAL",
			kill: oldServer.Kill, start: oldServer.Start,
		},
	}
}

// TestCutConnection cuts the connection at many points of an insert, the one
// after which only the server's yes is missing among them, and wants each event
// once after the batch has come again.
func TestCutConnection(t *testing.T) {
	for _, server := range servers() {
		t.Run(server.name, func(t *testing.T) {
			conn, table := connect(t, server.dsn(server.address)), tableOf(t, "events")
			server.make(t, conn, table)
			r := relay.New(t, server.address)
			s := open(t, Config{DSN: server.dsn(r.Address()), Table: table})
			sent := 0
			for i, at := range []int64{1, 1_500, 5_000, 10_000} {
				b := sinktest.Batch(uint64(i+1), 10, 100)
				b.Number = int64(i + 1)
				if err := s.learn(t.Context()); err != nil { // so that the insert is what is cut
					t.Fatal(err)
				}
				r.CutAfter(at)
				wantOutage(t, s.Deliver(t.Context(), b))
				insist(t, s, b)
				sent += len(b.Events)
			}
			b := sinktest.Batch(50, 10, 100)
			b.Number = 50
			deliver(t, s, sinktest.Batch(49, 1, 1))
			if server.name == "new" { // the old one answers while the insert begins
				r.Mute.Store(true)
				wantOutage(t, s.Deliver(t.Context(), b))
				r.Mute.Store(false)
			}
			insist(t, s, b)
			sent += len(b.Events) + 1
			wantOnce(t, conn, table, server.final, sent)
		})
	}
}

// TestKilledServer kills the server with SIGKILL in the middle of an insert.
func TestKilledServer(t *testing.T) {
	for _, server := range servers() {
		t.Run(server.name, func(t *testing.T) {
			conn, table := connect(t, server.dsn(server.address)), tableOf(t, "events")
			server.make(t, conn, table)
			r := relay.New(t, server.address)
			kill := func() {
				if err := server.kill(); err != nil {
					t.Error(err)
				}
				r.Cut()
			}
			s := open(t, Config{DSN: server.dsn(r.Address()), Table: table})
			sent := 0
			for i, at := range []int64{10_000, 40_000} {
				b := sinktest.Batch(uint64(i+1), 20, 250)
				b.Number = int64(i + 1)
				if err := s.learn(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.After(at, kill)
				wantOutage(t, s.Deliver(t.Context(), b))
				if err := server.start(t.Context()); err != nil {
					t.Fatal(err)
				}
				insist(t, s, b)
				deliver(t, s, b) // and once more
				sent += len(b.Events)
			}
			wantOnce(t, conn, table, server.final, sent)
		})
	}
}

// TestKilledAfterTheInsert kills the server right after it has said yes: what
// was accepted is still there, and so is the memory of its token.
func TestKilledAfterTheInsert(t *testing.T) {
	for _, server := range servers() {
		t.Run(server.name, func(t *testing.T) {
			conn, table := connect(t, server.dsn(server.address)), tableOf(t, "events")
			server.make(t, conn, table)
			s, b := open(t, Config{DSN: server.dsn(server.address), Table: table}), sinktest.Batch(1, 20, 250)
			deliver(t, s, b)
			if err := server.kill(); err != nil {
				t.Fatal(err)
			}
			wantOutage(t, s.Deliver(t.Context(), sinktest.Batch(2, 1, 1)))
			if err := server.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantOnce(t, conn, table, server.final, len(b.Events))
			insist(t, s, b)
			wantOnce(t, conn, table, server.final, len(b.Events))
		})
	}
}

// wantOutage wants an answer after which the same batch comes again, and
// nothing that speaks of overload.
func wantOutage(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("accepted, want an error")
	}
	if special(err) {
		t.Errorf("got %v, want an outage", err)
	}
}

// insist delivers until the server is back.
func insist(t *testing.T, s *Sink, b exporter.Batch) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := s.Deliver(t.Context(), b)
		if err == nil {
			return
		}
		if special(err) || time.Now().After(deadline) {
			t.Fatalf("not accepted: %v", err)
		}
	}
}

func wantOnce(t *testing.T, conn driver.Conn, table, final string, sent int) {
	t.Helper()
	var rows, different uint64
	query := "SELECT count(), uniqExact(run_id, seq, event_id) FROM `" + table + "`" + final
	for deadline := time.Now().Add(10 * time.Second); ; { // a pool may hold a connection to the killed server
		err := conn.QueryRow(t.Context(), query).Scan(&rows, &different)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if rows != uint64(sent) || different != uint64(sent) {
		t.Errorf("%d rows, %d different events: want %d of both", rows, different, sent)
	}
}

func TestNoServerAndNoSecrets(t *testing.T) {
	const secret = "s3cr+t%2Fwith%20signs"
	r := relay.New(t, "127.0.0.1:1")
	for _, scheme := range []string{"clickhouse", "http", "https"} {
		s := open(t, Config{DSN: scheme + "://me:" + secret + "@" + r.Address() + "/default?dial_timeout=1s"})
		err := s.Deliver(t.Context(), sinktest.Batch(1, 1, 1))
		wantOutage(t, err)
		wantSecret(t, err)
		_, err = s.Check(t.Context())
		if err == nil {
			t.Error("Check finds nothing wrong with a server that is away")
		}
		wantSecret(t, err)
	}
	_, err := Open(Config{DSN: "clickhouse://me:" + secret + "@%zz:port/"})
	wantSecret(t, err)
	if err == nil || !strings.Contains(err.Error(), "_CLICKHOUSE_DSN") {
		t.Errorf("got %v, want the variable's name", err)
	}
}

func wantSecret(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, part := range []string{"s3cr", "with signs", "with%20signs"} {
		if strings.Contains(err.Error(), part) {
			t.Errorf("the error holds a part of the password: %v", err)
		}
	}
}
