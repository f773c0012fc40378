package cursor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// Who gets a lease is decided by the row and the database's clock.
func TestClaim(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		a, _ := f.claim("a")
		_, _, err := f.Claim(ctx, "feed", "b", ttl)
		var owned *OwnedError
		if !errors.As(err, &owned) || owned.Owner != "a" || time.Until(owned.Until) > 2*ttl {
			t.Fatalf("claim of an owned consumer: %v", err)
		}
		again, _ := f.claim("a")
		if again.Epoch() != a.Epoch()+1 {
			t.Errorf("epochs %d and %d of one owner", a.Epoch(), again.Epoch())
		}
		if err := a.Renew(ctx, Heartbeat{}); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("renewal of the same owner's earlier claim: %v", err)
		}
		must(t, again.Release(ctx, false))
		b, _ := f.claim("b")
		f.expire()
		if err := b.Renew(ctx, Heartbeat{}); err != nil {
			t.Errorf("renewal of an expired lease that nobody took: %v", err)
		}
		if _, _, err := f.Claim(ctx, "feed", "a", ttl); !errors.As(err, &owned) {
			t.Errorf("claim of a lease renewed after its expiry: %v", err)
		}
		f.expire()
		f.claim("c")
		must(t, failed(f.Pause(ctx, "feed", "eve", "maintenance")))
		for _, owner := range []string{"c", "d"} {
			var paused *PausedError
			if _, _, err := f.Claim(ctx, "feed", owner, ttl); !errors.As(err, &paused) || paused.By != "eve" || paused.Detail != "maintenance" ||
				paused.Reason != exporter.PausedByPerson || paused.At.IsZero() {
				t.Errorf("claim of a paused consumer: %v", err)
			}
		}
		if _, _, err := f.Claim(ctx, "nobody", "a", ttl); !errors.Is(err, ErrNotFound) {
			t.Errorf("claim of a consumer that does not exist: %v", err)
		}
	})
}

// Of many claims at one moment one gets the consumer.
func TestClaimsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	const replicas = 8
	results := make(chan error, replicas)
	for i := range replicas {
		go func() {
			_, _, err := f.Claim(t.Context(), "feed", string(rune('a'+i)), ttl)
			results <- err
		}()
	}
	won := 0
	for range replicas {
		err := <-results
		var owned *OwnedError
		switch {
		case err == nil:
			won++
		case !errors.As(err, &owned):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d replicas own the consumer", won)
	}
}

// An attempt that our own shutdown cut short does not count; another does.
func TestRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	attempt := func() int {
		c, state := f.claim("a")
		must(t, c.Release(t.Context(), false))
		return state.Intent.Attempt
	}
	c, _ := f.claim("a")
	must(t, c.Release(t.Context(), true)) // nothing has begun
	c, _ = f.claim("a")
	must(t, c.Begin(t.Context(), intent(t, 1, 1, "10")))
	must(t, c.Release(t.Context(), true))
	if n := attempt(); n != 0 {
		t.Errorf("attempt %d after an abandoned one, want 0", n)
	}
	c, _ = f.claim("a")
	must(t, c.Begin(t.Context(), intent(t, 1, 1, "10")))
	must(t, c.twin().Begin(t.Context(), intent(t, 1, 2, "10"))) // its answer got lost
	c.begun = intent(t, 1, 2, "10")
	must(t, c.Release(t.Context(), true))
	if n := attempt(); n != 1 {
		t.Errorf("attempt %d after a first that counts and an abandoned second, want 1", n)
	}
	c, _ = f.claim("a")
	must(t, c.Release(t.Context(), true)) // abandoned, but nothing of this owner had begun
	if n := attempt(); n != 1 {
		t.Errorf("attempt %d after an owner that began nothing, want 1", n)
	}
}

// A heartbeat is seen in the status.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	ago := time.Hour
	holder := exporter.Holder{Transaction: "4/17", PID: 99, Application: "app", Since: time.Now().UTC().Truncate(time.Microsecond)}
	must(t, c.Renew(t.Context(), Heartbeat{CaughtUp: &ago, Holders: []exporter.Holder{holder}, LastError: "refused"}))
	s := f.status()
	if s.CaughtUpAt == nil || s.Now.Sub(*s.CaughtUpAt) < ago || s.Now.Sub(*s.CaughtUpAt) > ago+time.Minute {
		t.Errorf("caught up at %v, now %v", s.CaughtUpAt, s.Now)
	}
	if len(s.Holders) != 1 || s.Holders[0] != holder || s.LastError != "refused" || s.LastErrorAt == nil || !s.LeaseLive || s.Owner != "a" {
		t.Errorf("status is %+v", s)
	}
	must(t, c.Renew(t.Context(), Heartbeat{LastError: "refused"}))
	if again := f.status(); !again.LastErrorAt.Equal(*s.LastErrorAt) || again.CaughtUpAt == nil {
		t.Error("the same error got another time, or the old caught-up time was lost")
	}
	must(t, c.Renew(t.Context(), Heartbeat{}))
	if s := f.status(); s.LastError != "" || s.LastErrorAt != nil || len(s.Holders) != 0 {
		t.Errorf("status after recovery is %+v", s)
	}
}

func noNews() Heartbeat { return Heartbeat{} }

// untilEnded is work that does nothing until it must stop, and says why it had to.
func untilEnded(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Run keeps the lease for longer than its TTL, and hands back what work returns.
func TestRunRenews(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _, err := f.Claim(t.Context(), "feed", "a", 600*time.Millisecond)
		must(t, err)
		first := f.status()
		mine := errors.New("mine")
		err = c.Run(t.Context(), noNews, func(ctx context.Context) error {
			pgtest.Eventually(t, 10*time.Second, func() error {
				if s := f.status(); s.LeaseUntil.Sub(*first.LeaseUntil) < 900*time.Millisecond {
					return errors.New("awaiting renewals")
				}
				return ctx.Err()
			})
			return mine
		})
		if !errors.Is(err, mine) || errors.Is(err, exporter.ErrFenced) {
			t.Errorf("run returned %v", err)
		}
	})
}

// The parent's end stops work, not the renewals: work may still finish.
func TestRunRenewsWhileWorkFinishes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _, err := f.Claim(t.Context(), "feed", "a", 600*time.Millisecond)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Run(ctx, noNews, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		stopped := f.status()
		pgtest.Eventually(t, 10*time.Second, func() error {
			if f.status().LeaseUntil.Sub(*stopped.LeaseUntil) < 300*time.Millisecond {
				return errors.New("awaiting renewals")
			}
			return nil
		})
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, exporter.ErrFenced) {
		t.Errorf("run returned %v", err)
	}
}

// An owner that lost the lease, or that a person paused, is told so.
func TestRunEndsWhenTheLeaseIsLost(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _, err := f.Claim(t.Context(), "feed", "a", 900*time.Millisecond)
		must(t, err)
		f.expire()
		f.claim("b")
		err = c.Run(t.Context(), noNews, untilEnded)
		if !errors.Is(err, exporter.ErrFenced) || !strings.Contains(err.Error(), "epoch 2 of b, ours is 1") {
			t.Errorf("run of an owner that was taken over returned %v", err)
		}
		f.expire()
		c, _, err = f.Claim(t.Context(), "feed", "a", 900*time.Millisecond)
		must(t, err)
		must(t, failed(f.Pause(t.Context(), "feed", "eve", "maintenance")))
		err = c.Run(t.Context(), noNews, untilEnded)
		var paused *PausedError
		if !errors.Is(err, exporter.ErrFenced) || !errors.As(err, &paused) || paused.By != "eve" {
			t.Errorf("run of a paused consumer returned %v", err)
		}
		must(t, c.Release(t.Context(), false))
	})
}

// An owner cut off from the database stops before its lease ends there, so
// before anybody else can start.
func TestRunEndsBeforeTheLeaseWhenCutOff(t *testing.T) {
	t.Parallel()
	dsn := ""
	var kill func() error
	f := newFixture(t, func(d string) string {
		b := pgtest.PgBouncer(t, d, 2)
		kill = b.Kill
		dsn = b.DSN()
		return dsn
	})
	c, _, err := f.Claim(t.Context(), "feed", "a", 1500*time.Millisecond)
	must(t, err)
	must(t, kill())
	work := errors.New("the sink said something")
	err = c.Run(t.Context(), noNews, func(ctx context.Context) error {
		<-ctx.Done()
		left := pgtest.Value[float64](t, f.admin, f.sql("SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM {consumers}"))
		if left <= 0 {
			t.Errorf("work was stopped %gs after the lease had ended", -left)
		}
		if !errors.Is(context.Cause(ctx), exporter.ErrFenced) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return work
	})
	if !errors.Is(err, exporter.ErrFenced) || !errors.Is(err, work) {
		t.Errorf("run returned %v", err)
	}
}

// A pool that is busy does not keep a renewal from getting through.
func TestRenewalsHaveTheirOwnConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	for range 4 {
		conn, err := f.pool.Acquire(t.Context())
		must(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	must(t, c.Renew(ctx, Heartbeat{}))
}

// Somebody who locks a consumer's row costs that consumer's renewal, and not
// the other consumers', which share the connection.
func TestLockedRowHoldsUpNoOtherRenewal(t *testing.T) {
	f := newFixture(t, direct)
	a, _ := f.claim("a")
	f.create("other")
	other, _, err := f.Claim(t.Context(), "other", "a", ttl)
	must(t, err)
	lock, err := f.admin.Begin(t.Context())
	must(t, err)
	defer func() { _ = lock.Rollback(context.Background()) }() // is done already, but after a failure
	pgtest.Exec(t, lock, f.sql("SELECT FROM {consumers} WHERE name = 'feed' FOR UPDATE"))
	patience, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	answer := make(chan error, 1)
	began := time.Now()
	go func() { answer <- a.Renew(patience, Heartbeat{}) }()
	for waiting := true; waiting; {
		select {
		case err = <-answer:
			waiting = false
		default:
		}
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		must(t, other.Renew(short, Heartbeat{}))
		cancel()
	}
	if err == nil || errors.Is(err, exporter.ErrFenced) {
		t.Fatalf("renewing a locked row: %v, want an error that is no loss", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Fatalf("the renewal waited %v for the lock", took)
	}
	must(t, lock.Rollback(t.Context()))
	must(t, a.Renew(t.Context(), Heartbeat{}))
}

// A process that has slept past its lease does not take the consumer from the
// one of its name that has followed it.
func TestSleeperDoesNotTakeBackByName(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		f.claim("a")
		pgtest.Exec(t, f.admin, f.sql(`UPDATE {consumers} SET lease_until = clock_timestamp() - interval '1 second'`))
		twin := NewStore(f.pool, f.renewals, schema)
		second, _, err := twin.Claim(ctx, "feed", "a", time.Hour)
		must(t, err)
		var owned *OwnedError
		if _, _, err := f.Claim(ctx, "feed", "a", time.Hour); !errors.As(err, &owned) {
			t.Errorf("the sleeper takes it back: %v", err)
		}
		if !f.NameIsShared() || twin.NameIsShared() {
			t.Errorf("the sleeper knows of the other one: %v; and the other way round: %v", f.NameIsShared(), twin.NameIsShared())
		}
		must(t, second.Renew(ctx, Heartbeat{}))
	})
}

// Of two processes with one name the later one keeps the consumer; the other
// one waits as for anybody, and may have it once the lease has expired.
func TestTwoProcessesOfOneName(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		twin := NewStore(f.pool, f.renewals, schema)
		first, _ := f.claim("a")
		second, _, err := twin.Claim(ctx, "feed", "a", time.Hour)
		must(t, err)
		if err := first.Renew(ctx, Heartbeat{}); !errors.Is(err, exporter.ErrFenced) || !strings.Contains(err.Error(), "another process of the same name, a") {
			t.Errorf("renewal of the first: %v", err)
		}
		var owned *OwnedError
		if _, _, err := f.Claim(ctx, "feed", "a", time.Hour); !errors.As(err, &owned) || owned.Owner != "a" {
			t.Errorf("the first takes it back: %v", err)
		}
		must(t, second.Renew(ctx, Heartbeat{}))
		again, _, err := twin.Claim(ctx, "feed", "a", time.Hour) // as after any trouble of its own
		must(t, err)
		pgtest.Exec(t, f.admin, f.sql(`UPDATE {consumers} SET lease_until = clock_timestamp() - interval '1 second'`))
		_, _, err = f.Claim(ctx, "feed", "a", time.Hour)
		must(t, err)
		if err := again.Renew(ctx, Heartbeat{}); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("renewal of the second: %v", err)
		}
	})
}

// What runs under the lease knows by the clock that it is over, before the timer
// that ends its context has run.
func TestLeaseEndsByTheClock(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		must(t, c.Run(t.Context(), func() Heartbeat { return Heartbeat{} }, func(ctx context.Context) error {
			if err := exporter.Alive(ctx); err != nil {
				t.Errorf("under the lease: %v", err)
			}
			c.renewing.Lock()
			c.renewed = time.Now().Add(-ttl) // as if all this time had passed since
			c.renewing.Unlock()
			if err := exporter.Alive(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("after it: %v, %v", err, ctx.Err())
			}
			return nil
		}))
	})
}
