package cursor

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

func (f *fixture) createBackfill(from, until string) {
	f.t.Helper()
	created, err := f.CreateBackfill(f.t.Context(), Plan{
		Name: "history", From: at(f.t, from), Until: at(f.t, until), Spec: map[string]string{"consumer": "feed"}, By: "eve", Reason: "r",
	})
	if err != nil || !created {
		f.t.Fatalf("created %v, %v", created, err)
	}
}

func (f *fixture) claimBackfill() *Cursor {
	f.t.Helper()
	c, _, err := f.Claim(f.t.Context(), "history", "one", ttl)
	must(f.t, err)
	return c
}

func (f *fixture) backfill() BackfillStatus {
	f.t.Helper()
	b, err := f.Backfill(f.t.Context(), "history")
	must(f.t, err)
	return b
}

func TestBackfillLife(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		feed := f.stored()
		f.createBackfill("10-{[4,5]}", "20-{[5,5],[12,13]}")
		if created, err := f.CreateBackfill(ctx, Plan{Name: "history", Until: at(t, "9")}); created || err != nil {
			t.Fatalf("created twice: %v, %v", created, err)
		}
		if _, err := f.CreateBackfill(ctx, Plan{Name: "nothing", From: at(t, "9"), Until: at(t, "9")}); err == nil {
			t.Fatal("a backfill of nothing was made")
		}
		b := f.backfill()
		var spec map[string]string
		must(t, json.Unmarshal(b.Spec, &spec))
		if b.Kind != Backfill || b.Until.String() != "20-{[5,5],[12,13]}" || spec["consumer"] != "feed" || b.State() != Unowned {
			t.Fatalf("%+v", b)
		}
		c := f.claimBackfill()
		for _, not := range []string{"10-{[4,5]}", "20-{[4,5],[12,13]}", "20-{[5,5],[11,13]}"} {
			must(t, c.Accept(ctx, exporter.Acceptance{To: at(t, not)}))
			if err := c.Finish(ctx); err == nil || errors.Is(err, exporter.ErrFenced) {
				t.Fatalf("finished at %s: %v", not, err)
			}
			if not == "20-{[4,5],[12,13]}" { // back, to try the other hole
				must(t, f.Set(ctx, "history", at(t, "10-{[4,5]}"), true, "eve", "r"))
				c = f.claimBackfill()
			}
		}
		stale := c.twin()
		must(t, c.Accept(ctx, exporter.Acceptance{To: at(t, "20-{[5,5],[12,13]}")}))
		must(t, c.Finish(ctx))
		must(t, c.Finish(ctx)) // the answer was lost
		must(t, c.Release(ctx, false))
		stale.epoch--
		if err := stale.Finish(ctx); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("a stale owner finished: %v", err)
		}
		if b = f.backfill(); b.State() != Finished || b.Finished == nil || b.Cancelled {
			t.Errorf("%+v", b)
		}
		if _, _, err := f.Claim(ctx, "history", "two", ttl); !errors.Is(err, ErrFinished) {
			t.Errorf("claimed after the end: %v", err)
		}
		if changed, err := f.Cancel(ctx, "history", "eve", "r"); changed || err != nil {
			t.Errorf("cancelled after the end: %v, %v", changed, err)
		}
		if err := f.Set(ctx, "history", at(t, "10"), true, "eve", "r"); !errors.Is(err, ErrFinished) || f.backfill().Position.High != 20 {
			t.Errorf("moved after the end: %v", err)
		}
		if changed, err := f.Pause(ctx, "history", "eve", "r"); changed || !errors.Is(err, ErrFinished) || f.backfill().Paused != nil {
			t.Errorf("paused after the end: %v, %v", changed, err)
		}
		if left, err := f.Unfinished(ctx); len(left) != 0 || err != nil {
			t.Errorf("unfinished %v, %v", left, err)
		}
		if all, err := f.Backfills(ctx); len(all) != 1 || err != nil {
			t.Errorf("backfills %v, %v", all, err)
		}
		if f.stored() != feed {
			t.Error("the live consumer's row has changed")
		}
		if n := f.count("{audit}", "consumer = 'history' AND command IN ('create', 'finish')"); n != 2 {
			t.Errorf("%d entries in the audit", n)
		}
	})
}

func TestCancelFencesTheOwner(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		f.createBackfill("0", "20")
		c := f.claimBackfill()
		must(t, c.Begin(ctx, intent(t, 1, 1, "7")))
		if changed, err := f.Cancel(ctx, "history", "eve", "wrong"); !changed || err != nil {
			t.Fatalf("changed %v, %v", changed, err)
		}
		if err := c.Accept(ctx, exporter.Acceptance{Number: 1, To: at(t, "7")}); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("accept after cancel: %v", err)
		}
		if err := c.Renew(ctx, Heartbeat{}); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("renewal after cancel: %v", err)
		}
		if err := c.Finish(ctx); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("finish after cancel: %v", err)
		}
		b := f.backfill()
		if !b.Cancelled || b.Finished == nil || b.State() != Cancelled || b.Position.High != 0 || b.Intent != nil || !b.LeaseLive {
			t.Errorf("%+v", b)
		}
	})
}

// Only its owner changes what a backfill is asked for, or anybody while it has none.
func TestSetSpec(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		f.createBackfill("0", "20")
		want := func(rate string) {
			t.Helper()
			var spec map[string]string
			must(t, json.Unmarshal(f.backfill().Spec, &spec))
			if spec["rate"] != rate {
				t.Errorf("the rate is %q, want %q", spec["rate"], rate)
			}
		}
		spec := func(rate string) map[string]string { return map[string]string{"consumer": "feed", "rate": rate} }
		must(t, f.SetSpec(ctx, "history", spec("1"), "eve", "r"))
		want("1")
		c := f.claimBackfill()
		if _, owned := errors.AsType[*OwnedError](f.SetSpec(ctx, "history", spec("2"), "eve", "r")); !owned {
			t.Error("changed under its owner")
		}
		want("1")
		must(t, c.SetSpec(ctx, spec("3"), "eve", "r"))
		must(t, c.SetSpec(ctx, spec("3"), "eve", "r")) // the answer was lost
		want("3")
		stale := c.twin()
		stale.epoch--
		if err := stale.SetSpec(ctx, spec("4"), "eve", "r"); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("a stale owner: %v", err)
		}
		if _, err := f.Pause(ctx, "history", "eve", "r"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetSpec(ctx, spec("5"), "eve", "r"); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("paused: %v", err)
		}
		want("3")
		if n := f.count("{audit}", "consumer = 'history' AND command = 'change'"); n != 2 {
			t.Errorf("%d changes in the audit", n)
		}
		if _, err := f.Cancel(ctx, "history", "eve", "r"); err != nil {
			t.Fatal(err)
		}
		f.exec("UPDATE {consumers} SET lease_until = clock_timestamp() - interval '1 second' WHERE name = 'history'")
		if err := f.SetSpec(ctx, "history", spec("6"), "eve", "r"); !errors.Is(err, ErrFinished) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestFurthestBehind(t *testing.T) {
	f := newFixture(t, direct)
	behind := func() Behind {
		t.Helper()
		b, err := f.FurthestBehind(t.Context())
		must(t, err)
		return b
	}
	f.create("other")
	f.createBackfill("0", "20")
	f.claimBackfill()
	f.exec("UPDATE {consumers} SET created_at = clock_timestamp() - interval '1 hour'")
	if b := behind(); b.Name != "" {
		t.Errorf("nobody runs a live consumer, and %s is behind", b.Name)
	}
	c, _ := f.claim("one")
	if b := behind(); b.Name != "feed" || b.Time < 59*time.Minute {
		t.Errorf("one that has never caught up: %+v", b)
	}
	now := time.Duration(0)
	must(t, c.Renew(t.Context(), Heartbeat{CaughtUp: &now}))
	if b := behind(); b.Name != "feed" || b.Time > 10*time.Second {
		t.Errorf("caught up: %+v", b)
	}
	f.exec("UPDATE {consumers} SET owner = 'two', lease_until = clock_timestamp() + interval '1 hour' WHERE name = 'other'")
	if b := behind(); b.Name != "other" {
		t.Errorf("%+v", b)
	}
	if _, err := f.Pause(t.Context(), "other", "eve", "r"); err != nil {
		t.Fatal(err)
	}
	if b := behind(); b.Name != "feed" {
		t.Errorf("a paused one counts: %+v", b)
	}
}
