package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// guarded is a paused consumer with an hour of headroom left of a day, and one
// event that the pruner would take at once.
func guarded(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.env["RETENTION_EVENTS"] = "1d"
	s.env["RETENTION_GUARD"] = "hold"
	s.insertAged("old", 1, 1, 2*day)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "consumer", "pause", "analytics", "--reason", "the warehouse moves").want(t, exitOK)
	s.insertAged("next", 1, 3, 23*time.Hour)
	return s
}

func (s *site) pass() docketsim.Pruned {
	s.t.Helper()
	done, err := docketsim.Pruner{Schema: "public", Events: day}.Pass(s.t.Context(), s.pool)
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

func (c *child) awaitSample(name string, want float64) {
	c.t.Helper()
	pgtest.Until(c.t, 20*time.Second, name, func() bool {
		samples, _ := c.scrape()
		got, ok := samples[name]
		return ok && got == want
	})
}

// While a consumer has little headroom the pruner does nothing, whoever of the
// replicas holds it off; afterwards it catches up.
func TestGuardHoldsThePrunerOff(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	one := s.replica("one", "")
	one.awaitSample("retention_guard_held", 1)
	two := s.replica("two", "")
	two.awaitSample("retention_guard_held", 1)
	if got := s.pass(); !got.Skipped {
		t.Fatalf("a pass beside the guard: %+v", got)
	}
	s.insert("r", 1) // Docket writes as ever
	command(t, s.env, "status").want(t, exitPerson, "Docket's pruner is held off by 2 sessions (docket-exporter guard)")
	if samples, _ := one.scrape(); samples["retention_guard_held_seconds_total"] <= 0 || samples["retention_guard_refused"] != 0 {
		t.Errorf("samples %v", samples)
	}
	for _, want := range []string{"all pruning of the schema pauses", `"consumer":"analytics"`, `"headroom":"59m`, `"below":"4h48m"`} {
		if !strings.Contains(one.stderr.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, one.stderr)
		}
	}
	one.kill()
	if got := s.pass(); !got.Skipped {
		t.Errorf("a pass beside the second guard: %+v", got)
	}
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "it has moved").want(t, exitOK)
	two.awaitSample("retention_guard_held", 0)
	pgtest.Until(t, 10*time.Second, "the pruner to catch up", func() bool { return s.pass().Events == 1 })
	if !strings.Contains(two.stderr.String(), "enough headroom again") {
		t.Errorf("the log does not say why it was released:\n%s", two.stderr)
	}
}

// A holder that dies, or is asked to stop, lets the pruner work.
func TestGuardEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s := guarded(t)
		c := start(t, s.env, "", "run")
		c.awaitSample("retention_guard_held", 1)
		c.signal(end)
		c.wait(30 * time.Second)
		pgtest.Until(t, 10*time.Second, "the pruner to work", func() bool { return s.pass().Events == 1 })
	}
}

func TestGuardIsRefusedThroughAPooler(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	pooler := pgtest.PgBouncer(t, s.dsn, 4)
	s.env["DOCKET_DATABASE_URL"], s.env["EXPORT_DATABASE_URL"] = pooler.DSN(), s.dsn
	command(t, s.env, "check").want(t, exitPerson, "RETENTION_GUARD", "pooler", "DOCKET_DIRECT_URL")
	c := start(t, s.env, "", "run")
	c.awaitSample("retention_guard_refused", 1)
	c.awaitSample("retention_guard_held", 0)
	if !strings.Contains(c.stderr.String(), "a pooler is in between") {
		t.Errorf("the log does not say why:\n%s", c.stderr)
	}
	if got := s.pass(); got.Events != 1 {
		t.Errorf("a pass: %+v", got)
	}
	s.env["DOCKET_DIRECT_URL"] = s.dsn
	command(t, s.env, "check").want(t, exitOK, "the pruner can be held off")
}

// A backfill reads what is pruned next by nature: the pruner is not held off
// for it, and nobody is woken.
func TestABackfillHasNoDeadline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["RETENTION_EVENTS"], s.env["RETENTION_GUARD"] = "1d", "hold"
	s.insertAged("old", 1, 60, 23*time.Hour)
	c := start(t, s.env, "", "run")
	s.await("analytics", 60)
	r := command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--detach", "--rate", "1/s")
	r.want(t, exitOK)
	name := begun(t, r)
	pgtest.Until(t, 30*time.Second, "its lag", func() bool {
		samples, _ := c.scrape()
		return samples["lag_seconds{"+name+"}"] > (23*time.Hour).Seconds() && samples["drain_events_per_second{"+name+"}"] > 0
	})
	looked := time.Now()
	pgtest.Until(t, 30*time.Second, "the guard to look", func() bool { return time.Since(looked) > 2*guardInterval })
	samples, _ := c.scrape()
	if wrong := samples.wrong(name, map[string]expect{
		"headroom_seconds": absent, "headroom_ratio": absent, "loss_eta_seconds": absent, "unowned_seconds": absent, "since_progress_seconds": positive,
	}); wrong != nil {
		t.Error(wrong)
	}
	if wrong := samples.wrong("analytics", map[string]expect{"headroom_ratio": positive, "unowned_seconds": zero}); wrong != nil {
		t.Error(wrong)
	}
	if samples["retention_guard_held"] != 0 || s.pass().Skipped {
		t.Errorf("the pruner is held off for a backfill:\n%s", c.stderr)
	}
	c.kill()
}

// What the pruner takes before a backfill comes is recorded; it neither stops
// the backfill nor wakes anybody.
func TestThePrunerOvertakesABackfill(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["RETENTION_EVENTS"], s.env["CONSUMER_ANALYTICS_ON_LOSS"] = "1d", "halt"
	s.insertAged("old", 1, 300, day-4*time.Second)
	s.insertAged("new", 1, 80, time.Hour)
	c := start(t, s.env, "", "run")
	s.await("analytics", 380)
	name := begun(t, command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--detach", "--rate", "20/s"))
	pgtest.Until(t, 30*time.Second, "the backfill to begin", func() bool { return len(s.lines(name)) > 20 })
	pgtest.Until(t, 30*time.Second, "the pruner to overtake it", func() bool { return s.pass().Events > 0 })
	pgtest.Until(t, 30*time.Second, "its loss", func() bool { return s.status(name).Losses == 1 })
	samples, _ := c.scrape()
	if wrong := samples.wrong(name, map[string]expect{"losses_open": absent, "lost_events_open": absent, "consumer_paused": zero}); wrong != nil {
		t.Error(wrong)
	}
	pgtest.Until(t, 30*time.Second, "the rest", func() bool { return s.status(name).Finished != nil })
	command(t, s.env, "cursor", "losses", name).want(t, exitOK, "events are kept for 1d")
	c.kill()
}

func TestGuardConfiguration(t *testing.T) {
	for _, x := range []struct {
		env  []string
		want string
	}{
		{[]string{"RETENTION_GUARD=hold", "RETENTION_EVENTS=none"}, "there is no pruner to hold off"},
		{[]string{"RETENTION_GUARD=maybe"}, "neither hold nor off"},
		{[]string{"RETENTION_GUARD=hold", "RETENTION_GUARD_BELOW=14d"}, "events are kept for 14d"},
		{[]string{"RETENTION_GUARD_BELOW=120%"}, "not a share"},
		{[]string{"RETENTION_GUARD_BELOW=soon"}, "neither a share nor a time"},
		{[]string{"RETENTION_GUARD_MAX=1s"}, "at least 1m"},
		{[]string{"RETENTION_RUNS=7d"}, "less than RETENTION_EVENTS (14d)"},
		{[]string{"CONSUMER_ANALYTICS_ON_LOSS=panic"}, "continue or halt"},
	} {
		_, err := loadConfig(with(x.env...))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, want %q", x.env, err, x.want)
		}
	}
	for text, want := range map[string]time.Duration{"20%": 2 * day, "0.5": 5 * day, "6h": 6 * time.Hour, "1d12h": 36 * time.Hour} {
		var h Headroom
		if err := h.UnmarshalText([]byte(text)); err != nil || h.of(10*day) != want {
			t.Errorf("%s is %v of ten days, %v", text, h.of(10*day), err)
		}
	}
}
