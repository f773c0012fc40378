package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// silent is an address that takes connections and never says a word, as behind
// a firewall that swallows packets.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // nobody accepts; the kernel completes the handshake
}

// One consumer's sink does not answer, another one's code panics: the third
// delivers everything meanwhile, and at once.
func TestThirdConsumerDeliversMeanwhile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.also("feed")
	s.env["EXPORTER_CONSUMERS"] += ",far"
	s.env["CONSUMER_FAR_SINK"] = "clickhouse"
	s.env["CONSUMER_FAR_CLICKHOUSE_DSN"] = "clickhouse://" + silent(t) + "/default"
	s.env["EXPORTER_SHUTDOWN_GRACE"] = "3s"
	s.insert("r", 10)
	c := start(t, s.env, panicSink+" 0", "run")
	s.await("analytics", 10)
	for _, trouble := range []string{"panic in the consumer", `"consumer":"far"`} {
		pgtest.Until(t, 20*time.Second, trouble, func() bool { return strings.Contains(c.stderr.String(), trouble) })
	}
	for i := 1; i <= 20; i++ {
		s.insert("r", 5)
		began := time.Now()
		s.await("analytics", 10+5*i)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("events took %v", took)
		}
	}
	s.wantDelivered("analytics", "r", 110)
	if n := len(s.delivered("feed")); n != 0 {
		t.Errorf("feed delivered %d", n)
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitOK {
		t.Errorf("exit code %d\n%s", code, c.stderr)
	}
}

// Many consumers, pages that take long, and a lease that must not notice: it is
// renewed through a connection of its own.
func TestSlowPagesDoNotStarveLeases(t *testing.T) {
	t.Parallel()
	s := shared(t, 10)
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	s.insert("r", 20)
	c := s.replica("one", "")
	s.awaitShares(20*time.Second, map[string]int{"one": 10})
	before := s.handOvers()
	lock := pgtest.Connect(t, s.dsn) // every page waits for it, longer than a lease lives
	pgtest.Exec(t, lock, `BEGIN`)
	pgtest.Exec(t, lock, `LOCK TABLE docket_events IN ACCESS EXCLUSIVE MODE`)
	worst := 0.0
	for began := time.Now(); time.Since(began) < 5*time.Second; {
		left := pgtest.Value[float64](t, s.pool, `SELECT min(extract(epoch FROM lease_until - clock_timestamp()))::float8 FROM docket_export.consumers`)
		worst = max(worst, 3-left)
	}
	pgtest.Exec(t, lock, `COMMIT`)
	if late := worst - 1; late > 1 {
		t.Errorf("a renewal came %.1f s late, more than a third of the lease", late)
	}
	if after := s.handOvers(); after != before || s.owned("one") != 10 {
		t.Errorf("%d claims before, %d after, %d consumers owned\n%s", before, after, s.owned("one"), c.stderr)
	}
	s.insert("r", 20)
	s.await("analytics", 40)
}

// What is removed under a process that is configured for it does not come back
// by itself: the process says what to do, and goes on with the others.
func TestRemovedConsumerIsToldOf(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.also("feed")
	s.insert("r", 2)
	c := start(t, s.env, "", "run")
	s.await("feed", 2)
	command(t, s.env, "consumer", "pause", "feed", "--reason", "not used any more").want(t, exitOK)
	pgtest.Eventually(t, 20*time.Second, func() error {
		r := command(t, s.env, "consumer", "remove", "feed", "--reason", "not used any more", "--yes")
		if r.code != exitOK {
			return fmt.Errorf("%s", r.stderr)
		}
		return nil
	})
	pgtest.Eventually(t, 20*time.Second, func() error {
		if text := c.stderr.String(); !strings.Contains(text, "removed or renamed") || !strings.Contains(text, "EXPORTER_CONSUMERS") {
			return fmt.Errorf("the log does not say it:\n%s", text)
		}
		return scrape(c.url()+"/readyz", "ready; configured but removed or renamed, so not running: feed")
	})
	s.insert("r", 2)
	s.await("analytics", 4)
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.consumers`); n != 1 {
		t.Errorf("%d consumers", n)
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
