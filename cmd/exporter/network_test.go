package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
)

// backWithin is how long after a fault of the database is mended events may
// take to be delivered again.
const backWithin = 5 * time.Second

// cable is a network between the exporter and a server that can be cut. What is
// sent meanwhile arrives when it is mended, as TCP has it.
type cable struct {
	listener net.Listener
	server   string
	mu       sync.Mutex
	mended   chan struct{} // closed while nothing is cut
}

func newCable(t *testing.T, server string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: l, server: server, mended: make(chan struct{})}
	close(c.mended)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(client)
		}
	}()
	return c
}

func (c *cable) carry(client net.Conn) {
	defer client.Close()
	<-c.whole()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	go c.copy(server, client)
	c.copy(client, server)
}

func (c *cable) copy(to, from net.Conn) {
	defer to.Close()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		<-c.whole()
		if _, werr := to.Write(piece[:n]); err != nil || werr != nil {
			if err != io.EOF {
				_ = from.Close()
			}
			return
		}
	}
}

func (c *cable) whole() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mended
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mended = make(chan struct{})
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.mended)
}

// through leads the exporter to its databases over a cable.
func (s *site) through() *cable {
	s.t.Helper()
	u, err := url.Parse(s.dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	c := newCable(s.t, u.Host)
	u.Host = c.listener.Addr().String()
	s.env["DOCKET_DATABASE_URL"] = u.String()
	return c
}

// goesOn writes events and wants everything delivered soon.
func (s *site) goesOn(c *child) {
	s.t.Helper()
	s.insert("again", 3)
	began := time.Now()
	s.await("analytics", pgtest.Value[int](s.t, s.pool, "SELECT count(*) FROM docket_events"))
	if took := time.Since(began); took > backWithin {
		s.t.Errorf("it took %v to go on\n%s", took, c.stderr)
	}
}

// whole ends the exporter and compares table and files.
func (s *site) whole(c *child) {
	s.t.Helper()
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitOK {
		s.t.Errorf("exit code %d\n%s", code, c.stderr)
	}
	r, err := verdict.Read(s.t.Context(), s.pool, "public", nil, s.env["CONSUMER_ANALYTICS_FILE_DIR"], "analytics")
	if err != nil {
		s.t.Fatal(err)
	}
	if !r.Clean() {
		s.t.Errorf("%s\n%v", r, r.Examples)
	}
}

// A network that carries nothing for longer than the lease: the owner stops
// before its lease ends, and goes on by itself once it is mended.
func TestNetworkIsCut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "2s"
	cable := s.through()
	s.insert("r", 5)
	c := start(t, s.env, "", "run")
	s.await("analytics", 5)
	for range (rounds(t) + 4) / 5 {
		cable.cut()
		s.insert("r", 5)
		said := strings.Count(c.stderr.String(), "no longer the owner")
		pgtest.Until(t, 20*time.Second, "the owner to stop", func() bool {
			return strings.Count(c.stderr.String(), "no longer the owner") > said
		})
		if left := pgtest.Value[float64](t, s.pool, `SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM docket_export.consumers`); left < -1 {
			t.Errorf("the owner stopped %.1f s after its lease had ended", -left)
		}
		cable.mend()
		s.goesOn(c)
	}
	s.whole(c)
}

// An administrator ends all connections, as often as he likes.
func TestConnectionsAreEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("r", 5)
	c := start(t, s.env, "", "run")
	s.await("analytics", 5)
	for range rounds(t) {
		s.insert("r", 50)
		pgtest.Exec(t, s.pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'docket-exporter' AND datname = current_database()`)
		s.goesOn(c)
	}
	s.whole(c)
}

// The server is restarted under a batch that the sink has taken and that is not
// recorded yet, in an orderly way and by a crash.
func TestServerRestartsUnderABatch(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, pgserver.Options{Durable: true})
	s := newSiteOn(t, cluster)
	s.insert("r", 5)
	c := start(t, s.env, slowSink+" 2", "run")
	s.await("analytics", 5)
	s.insert("r", 5)
	c.awaitLine("at slow")
	for range (rounds(t) + 4) / 5 {
		for _, mode := range []pgserver.Mode{pgserver.Immediate, pgserver.Fast} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := cluster.Restart(ctx, mode); err != nil {
				t.Fatal(err)
			}
			cancel()
			s.pool.Reset()
			s.goesOn(c)
		}
	}
	s.whole(c)
}
