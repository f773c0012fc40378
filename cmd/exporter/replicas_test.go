package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// shared is a site with n consumers, for replicas to share.
func shared(t *testing.T, n int) *site {
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	for i := 1; i < n; i++ {
		s.also(fmt.Sprintf("feed_%c", 'a'+i))
	}
	return s
}

// replica starts one under a name.
func (s *site) replica(name, fault string) *child {
	s.t.Helper()
	s.env["EXPORTER_REPLICA"] = name
	return start(s.t, s.env, fault, "run")
}

// owned is how many consumers a replica owns.
func (s *site) owned(replica string) int {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.pool, `SELECT count(*)::int FROM docket_export.consumers WHERE owner = $1 AND lease_until >= clock_timestamp()`, replica)
}

func (s *site) awaitShares(within time.Duration, want map[string]int) {
	s.t.Helper()
	pgtest.Eventually(s.t, within, func() error {
		for replica, n := range want {
			if got := s.owned(replica); got != n {
				return fmt.Errorf("%s owns %d, want %d", replica, got, n)
			}
		}
		return nil
	})
}

// handOvers is how often consumers have changed hands.
func (s *site) handOvers() int {
	return pgtest.Value[int](s.t, s.pool, `SELECT sum(epoch)::int FROM docket_export.consumers`)
}

// Replicas share the consumers, share them anew when one comes or goes, and
// then leave them where they are.
func TestReplicasShareConsumers(t *testing.T) {
	t.Parallel()
	s := shared(t, 5)
	s.insert("r", 4)
	first := s.replica("first", "")
	s.awaitShares(20*time.Second, map[string]int{"first": 5})
	second := s.replica("second", "")
	s.awaitShares(30*time.Second, map[string]int{"first": 3, "second": 2})
	if n := s.handOvers(); n != 7 {
		t.Errorf("%d claims for five consumers and two hand-overs", n)
	}

	stopped := time.Now()
	second.signal(syscall.SIGTERM)
	s.awaitShares(20*time.Second, map[string]int{"first": 5})
	t.Logf("taken over %v after the signal", time.Since(stopped))
	if took := time.Since(stopped); took > time.Second {
		t.Errorf("taking over after a clean stop took %v\n%s", took, second.stderr)
	}
	second.wait(20 * time.Second)

	third := s.replica("third", "")
	s.awaitShares(30*time.Second, map[string]int{"first": 3, "third": 2})
	third.kill()
	killed := time.Now()
	s.awaitShares(20*time.Second, map[string]int{"first": 5})
	t.Logf("taken over %v after a kill with a lease of 3s", time.Since(killed))
	if took := time.Since(killed); took > 3*time.Second+claimInterval+time.Second {
		t.Errorf("taking over after a kill took %v", took)
	}
	s.insert("r", 4)
	s.await("analytics", 8)
	s.wantDelivered("analytics", "r", 8)
	if strings.Contains(first.stderr.String(), "abandoned") {
		t.Errorf("a batch was abandoned\n%s", first.stderr)
	}
}

// Two processes with one name do not take the consumers from each other without
// end: the later one has them, the other one says what is wrong.
func TestTwoReplicasOfOneName(t *testing.T) {
	t.Parallel()
	s := shared(t, 2)
	s.insert("r", 4)
	first := s.replica("twin", "")
	s.awaitShares(20*time.Second, map[string]int{"twin": 2})
	second := s.replica("twin", "")
	pgtest.Until(t, 20*time.Second, "the first one to say what is wrong with both", func() bool {
		return strings.Count(first.stderr.String(), "standing by for another process of the same name") == 2
	})
	if err := scrape(first.url()+"/readyz", "another process is also called twin"); err != nil {
		t.Error(err)
	}
	before := s.handOvers()
	s.insert("r", 50)
	s.await("analytics", 54)
	s.wantDelivered("analytics", "r", 54)
	if now := s.handOvers(); now != before || now != 4 {
		t.Errorf("%d claims, and %d later, of two consumers by two processes", before, now)
	}
	second.kill()
	s.insert("r", 10)
	s.await("analytics", 64)
	s.wantDelivered("analytics", "r", 64)
}

// A consumer that only one replica is configured for stays with it, and a
// paused one counts for nobody.
func TestReplicasShareWhatBothHave(t *testing.T) {
	t.Parallel()
	s := shared(t, 4)
	s.replica("first", "")
	s.awaitShares(20*time.Second, map[string]int{"first": 4})
	command(t, s.env, "consumer", "pause", "feed_b", "--reason", "test").want(t, exitOK)
	s.env["EXPORTER_CONSUMERS"] = "feed_b,feed_c"
	s.without("analytics")
	s.without("feed_d")
	s.replica("second", "")
	s.awaitShares(30*time.Second, map[string]int{"first": 2, "second": 1})
	if owner := s.status("feed_c").Owner; owner != "second" {
		t.Errorf("feed_c belongs to %s", owner)
	}
}

// A consumer that sends a batch again which a crash interrupted is not given
// up, although another replica has nothing to do.
func TestInterruptedBatchIsNotGivenUp(t *testing.T) {
	t.Parallel()
	s := shared(t, 2)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.insert("r", 3)
	c := s.replica("crashed", afterBegin+" 1")
	c.awaitLine("at " + afterBegin)
	pgtest.Until(t, 20*time.Second, "the other consumer", func() bool {
		return pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.consumers WHERE high_id > 0 AND intent_high IS NULL`) == 1
	})
	c.kill()
	interrupted, other := "analytics", "feed_b"
	if s.status(interrupted).Intent == nil {
		interrupted, other = other, interrupted
	}
	first := s.replica("first", hungSink+" 1")
	first.awaitLine("at hung")
	s.awaitShares(10*time.Second, map[string]int{"first": 2})
	s.env["EXPORTER_CONSUMERS"] = interrupted
	s.without(other)
	s.replica("second", "")
	seen := func(name string) time.Time {
		return pgtest.Value[time.Time](t, s.pool, `SELECT coalesce(max(seen_until), 'epoch') FROM docket_export.replicas WHERE name = $1`, name)
	}
	pgtest.Until(t, 20*time.Second, "the second replica", func() bool { return seen("second").After(time.Unix(1, 0)) })
	for range 6 {
		before := seen("first")
		pgtest.Until(t, 10*time.Second, "a look at the shares", func() bool { return seen("first").After(before) })
	}
	if strings.Contains(first.stderr.String(), "giving a consumer up") || s.owned("first") != 2 {
		t.Fatalf("the consumer was given up\n%s", first.stderr)
	}
}

// without takes a consumer's variables away.
func (s *site) without(consumer string) {
	for v := range s.env {
		if strings.HasPrefix(v, "CONSUMER_"+strings.ToUpper(consumer)+"_") {
			delete(s.env, v)
		}
	}
}
