package main

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/lag"
	"github.com/docket-exporter/exporter/sources/docket"
)

const shortRetention = 10 * time.Minute

// observe reads analytics as a process with a short retention does, without
// sharing what others read.
func (s *site) observe() lag.Consumer {
	s.t.Helper()
	pool := pgtest.PlainPool(s.t, s.dsn)
	defer pool.Close()
	none := func(string) (docket.Filters, bool) { return docket.Filters{}, false }
	o := newObserver(cursor.NewStore(pool, nil, "docket_export"), pool, "public", shortRetention, none, slog.New(slog.DiscardHandler))
	seen, reading := o.latest()
	if reading.Err != nil || len(seen) != 1 || seen[0].Err != nil {
		s.t.Fatalf("read %+v: %+v", reading, seen)
	}
	return seen[0].Lag
}

func (s *site) headroom() (left time.Duration, at time.Time) {
	s.t.Helper()
	c := s.observe()
	left, known := c.Headroom(shortRetention)
	if !known {
		s.t.Fatalf("the headroom of %+v is unknown", c)
	}
	return left, c.Backlog.Now
}

// inserted adds an event that was inserted some time ago.
func (s *site) inserted(seq int, ago time.Duration) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		VALUES ('r', $1, 'node_completed', 0, $2, $2, now(), clock_timestamp() - $3::float8 * interval '1 second')`,
		seq, docketsim.EncodeEvent(map[string]any{}), ago.Seconds())
}

// Behind a paused consumer the headroom falls by one second a second, through
// the half and the fifth of the retention, and at once where an old row turns
// up. Docket's database keeps nothing back for us meanwhile.
func TestHeadroomFallsWhileAConsumerIsPaused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("r", 1)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 1")
	command(t, s.env, "consumer", "pause", "analytics", "--reason", "the warehouse moves").want(t, exitOK)
	if left, _ := s.headroom(); left != shortRetention {
		t.Fatalf("headroom %v with nothing left", left)
	}
	for i, c := range []struct {
		oldest    time.Duration
		low, high float64 // of the ratio
	}{
		{5*time.Minute - 30*time.Second, 0.5, 0.56},
		{5*time.Minute + time.Second, 0.44, 0.5},
		{8*time.Minute - 30*time.Second, 0.2, 0.26},
		{8*time.Minute + time.Second, 0.14, 0.2},
	} {
		s.inserted(i+2, c.oldest)
		left, _ := s.headroom()
		if ratio := left.Seconds() / shortRetention.Seconds(); ratio < c.low || ratio > c.high {
			t.Errorf("%v behind the ratio is %v, want %v to %v", c.oldest, ratio, c.low, c.high)
		}
	}
	first, at := s.headroom()
	pgtest.Until(t, 10*time.Second, "a second to pass", func() bool {
		_, now := s.headroom()
		return now.Sub(at) > time.Second
	})
	second, later := s.headroom()
	if fell, passed := first-second, later.Sub(at); math.Abs((fell - passed).Seconds()) > 1e-3 {
		t.Errorf("the headroom fell by %v in %v", fell, passed)
	}

	s.inserted(10, time.Second)
	s.inserted(11, 9*time.Minute)
	s.inserted(12, time.Second)
	if left, _ := s.headroom(); left > time.Minute || left < 30*time.Second {
		t.Errorf("headroom %v with a row nine minutes old in the middle", left)
	}
	if c := s.observe(); c.Paused != "operator" || c.Backlog.Events != 7 {
		t.Errorf("consumer %+v, backlog %+v", c, c.Backlog)
	}
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM pg_replication_slots`); n != 0 {
		t.Errorf("%d replication slots", n)
	}
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "it has moved").want(t, exitOK)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 8")
	if n := len(s.delivered("analytics")); n != 8 {
		t.Errorf("%d events delivered", n)
	}
	if left, _ := s.headroom(); left != shortRetention {
		t.Errorf("headroom %v after catching up", left)
	}
}

// How many events are left is told with the filter of the owner, by processes
// that do not know it from their own configuration.
func TestLagRespectsTheOwnersFilter(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, `INSERT INTO docket_export.consumers (name, high_id) VALUES ('analytics', 0)`)
	s.env["CONSUMER_ANALYTICS_TYPES"] = "run_*"
	none := func(string) (docket.Filters, bool) { return docket.Filters{}, false }
	o := &observer{schema: "public", docket: s.pool, configured: none}
	if _, err := o.backlog(t.Context(), &cursor.Status{Name: "analytics"}, &cursor.Scope{}); err != errFilterUnknown {
		t.Errorf("the backlog of a consumer whose filter nobody told: %v", err)
	}
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 3")
	s.insert("r", 4)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET type = 'run_completed' WHERE seq = 7`)
	if c := s.observe(); !c.Filtered || c.Backlog.Events != 1 || !c.Backlog.Exact {
		t.Errorf("consumer %+v, backlog %+v", c, c.Backlog)
	}
	delete(s.env, "CONSUMER_ANALYTICS_TYPES")
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 7")
	s.insert("r", 2)
	if c := s.observe(); c.Filtered || c.Backlog.Events != 2 {
		t.Errorf("consumer %+v, backlog %+v", c, c.Backlog)
	}
}

// Where time is too short for all backlogs, everybody has a turn.
func TestBacklogsTakeTurnsWhenTimeIsShort(t *testing.T) {
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	s := newSite(t)
	o := &observer{schema: "public", docket: s.pool, log: slog.New(slog.DiscardHandler)}
	three := func() []observed { return make([]observed, 3) }
	o.configured = func(string) (docket.Filters, bool) { return docket.Filters{}, true }
	for _, want := range []int{1, 2, 3} {
		all := three()
		o.readBacklogs(expired, all)
		if o.first != want || all[0].Err == nil || all[2].Err == nil {
			t.Fatalf("the next read begins with %d, want %d: %+v", o.first, want, all)
		}
	}
	all := three()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	asked := 0
	o.first = 4 // one consumer was removed since
	o.configured = func(string) (docket.Filters, bool) {
		if asked++; asked == 3 {
			end()
		}
		return docket.Filters{}, true
	}
	o.readBacklogs(ctx, all)
	if all[1].Err != nil || all[2].Err != nil || all[0].Err == nil || o.first != 0 {
		t.Errorf("first %d: %+v", o.first, all)
	}
}
