package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// soon is how long it may take until events flow again.
const soon = 5 * time.Second

// resumes waits until the consumer has delivered n events, and says how long
// that took.
func (s *site) resumes(after string, n int) {
	s.t.Helper()
	began := time.Now()
	s.await("analytics", n)
	if took := time.Since(began); took > soon {
		s.t.Errorf("after %s it took %v to go on", after, took)
	}
}

// What happens to the server under a running exporter passes without help:
// connections that are ended, a crash in the middle of a batch, and an address
// that leads to a standby for a while, whose connections nobody closes.
func TestServerFaults(t *testing.T) {
	t.Parallel()
	primary := pgtest.Cluster(t, pgserver.Options{})
	s := newSiteOn(t, primary)
	door := newDoor(t, s.dsn)
	s.env["DOCKET_DATABASE_URL"] = door.dsn // for reading, for the tables and for leases
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	s.insert("r", 2)
	c := start(t, s.env, slowSink+" 3", "run")
	s.await("analytics", 2)

	pgtest.Exec(t, s.pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	s.pool.Reset()
	s.insert("r", 2)
	s.resumes("pg_terminate_backend", 4)

	s.insert("r", 2)
	c.awaitLine("at slow") // the batch is begun, and the sink is busy with it
	s.pool.Reset()
	if err := primary.Restart(t.Context(), pgserver.Immediate); err != nil {
		t.Fatal(err)
	}
	s.insert("r", 2)
	s.resumes("a crash of the server", 8)

	standby := pgtest.Standby(t, primary, pgserver.Options{})
	door.lead(standby.URL("postgres"))
	pgtest.Exec(t, s.pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = ANY ($1)`, door.ports())
	pgtest.Until(t, 30*time.Second, "the exporter to meet the standby", func() bool {
		text := c.stderr.String()
		return strings.Contains(text, "in recovery") && strings.Contains(text, "25006")
	})
	s.insert("r", 2)
	door.lead(s.dsn)
	s.resumes("a standby behind the address", 10)
	s.wantDelivered("analytics", "r", 10)
	if s.status("analytics").Paused != nil {
		t.Error("it was paused")
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// A standby is promoted that lacks five commits, and the cursor's own went with
// them: what the exporter's tables say is whole again, and only the process that
// read the five events knows.
func TestFailoverThatLostCommits(t *testing.T) {
	t.Parallel()
	primary := pgtest.Cluster(t, pgserver.Options{})
	s := newSiteOn(t, primary)
	door := newDoor(t, s.dsn)
	s.env["DOCKET_DATABASE_URL"] = door.dsn
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	s.insert("r", 90)
	standby := pgtest.Standby(t, primary, pgserver.Options{})
	replica := pgtest.Pool(t, standby.URL("postgres"))
	// With the first id after the standby's checkpoint the log gives the sequence 32
	// ids in advance: the standby's will not be below the position.
	s.insert("r", 10)
	c := start(t, s.env, "", "run")
	s.await("analytics", 100)
	pgtest.Until(t, 20*time.Second, "the position to be recorded, there too", func() bool {
		return s.status("analytics").Position.High == 100 && pgtest.Value[int](t, replica, `SELECT coalesce(max(high_id), 0)::int FROM docket_export.consumers`) == 100
	})
	pgtest.Exec(t, replica, `ALTER SYSTEM SET primary_conninfo = ''`)
	pgtest.Exec(t, replica, `SELECT pg_reload_conf()`)
	pgtest.Until(t, 20*time.Second, "the standby to be cut off", func() bool {
		return pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM pg_stat_replication`) == 0
	})
	s.insert("r", 5)
	s.await("analytics", 105)
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	door.lead(standby.URL("postgres"))
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	s.dsn, s.pool = standby.URL("postgres"), replica
	defer func() {
		if t.Failed() {
			t.Log(c.stderr)
		}
	}()
	pgtest.Until(t, 30*time.Second, "the consumer to pause", func() bool { return s.status("analytics").Paused != nil })
	why := s.status("analytics").Paused
	if why.Reason != "source_changed" || !strings.Contains(why.Detail, "event 105 (r/105)") || !strings.Contains(why.Detail, "gone back to 100") {
		t.Fatalf("paused: %+v\n%s", why, c.stderr)
	}
	s.env["DOCKET_DATABASE_URL"] = s.dsn
	command(t, s.env, "status").want(t, exitPerson, "exporter source show")
	command(t, s.env, "source", "show").want(t, exitPerson, "PAUSED: event 105")
	command(t, s.env, "source", "adopt", "--reason", "failover", "--yes").want(t, exitOK, "event 105", "goes on after 100")
	s.insert("r", 3)
	s.await("analytics", 108)
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
}

// However long a database has been away, the next try is near.
func TestPatienceWithADatabaseIsShort(t *testing.T) {
	s := &supervisor{log: slog.New(slog.DiscardHandler)}
	var backoff exporter.Backoff
	var said remark
	for range 20 {
		if wait := s.judge(errors.New("connection refused"), &backoff, &said); wait > soon {
			t.Fatalf("it waits for %v", wait)
		}
	}
}

// door forwards connections to a server that may change. It closes none.
type door struct {
	t      *testing.T
	dsn    string // through the door
	target atomic.Pointer[string]
	opened chan int32
}

func newDoor(t *testing.T, dsn string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, opened: make(chan int32, 1000)}
	d.lead(dsn)
	u.Host = l.Addr().String()
	d.dsn = u.String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.forward(conn)
		}
	}()
	return d
}

// lead makes new connections lead to the server of dsn.
func (d *door) lead(dsn string) {
	d.t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		d.t.Fatal(err)
	}
	d.target.Store(&u.Host)
}

// ports are the ports from which connections were made.
func (d *door) ports() []int32 {
	var ports []int32
	for {
		select {
		case p := <-d.opened:
			ports = append(ports, p)
		default:
			return ports
		}
	}
}

func (d *door) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", *d.target.Load())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var port int32
	if _, text, err := net.SplitHostPort(server.LocalAddr().String()); err == nil {
		_, _ = fmt.Sscan(text, &port)
	}
	d.opened <- port
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}
