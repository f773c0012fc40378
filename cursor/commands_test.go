package cursor

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// audit returns who, command, reason, before and after of the newest record.
func (f *fixture) audit() (who, command, reason string, before, after map[string]any) {
	f.t.Helper()
	var b, a *string
	err := f.admin.QueryRow(f.t.Context(), f.sql("SELECT who, command, reason, before::text, after::text FROM {audit} ORDER BY id DESC LIMIT 1")).
		Scan(&who, &command, &reason, &b, &a)
	must(f.t, err)
	for text, into := range map[*string]*map[string]any{b: &before, a: &after} {
		if text != nil {
			must(f.t, json.Unmarshal([]byte(*text), into))
		}
	}
	return who, command, reason, before, after
}

func (f *fixture) audited(command string) (before, after map[string]any) {
	f.t.Helper()
	who, got, reason, before, after := f.audit()
	if who != "eve" || got != command || reason != "because" {
		f.t.Errorf("the audit says %s %s %q, want eve %s", who, got, reason, command)
	}
	return before, after
}

func TestCreate(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		made, err := f.Create(t.Context(), Consumer{Name: "late", Kind: Backfill, Position: at(t, "9-{[3,4]}"), By: "eve", Reason: "because"})
		if err != nil || !made {
			t.Fatalf("created %v, %v", made, err)
		}
		if before, after := f.audited("create"); before != nil || after["name"] != "late" {
			t.Errorf("audit before %v, after %v", before, after)
		}
		made, err = f.Create(t.Context(), Consumer{Name: "late", Position: at(t, "1"), By: "x", Reason: "y"})
		if err != nil || made {
			t.Errorf("created again: %v, %v", made, err)
		}
		f.audited("create")
		list, err := f.List(t.Context())
		if err != nil || len(list) != 2 || list[0].Name != "feed" || list[1].Name != "late" || list[1].Kind != Backfill || !list[1].Position.Equal(at(t, "9-{[3,4]}")) {
			t.Errorf("list is %+v, %v", list, err)
		}
		if _, err := f.Create(t.Context(), Consumer{Name: "Upper", By: "x"}); err == nil || !strings.Contains(err.Error(), `consumer name "Upper": want`) {
			t.Errorf("a bad name: %v", err)
		}
		if _, err := f.Get(t.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
			t.Errorf("get of no consumer: %v", err)
		}
	})
}

// failed leaves out whether a command changed something.
func failed(_ bool, err error) error { return err }

func TestPauseAndResume(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		c, _ := f.claim("a")
		must(t, c.Begin(ctx, intent(t, 1, 1, "10")))
		if changed, err := f.Pause(ctx, "feed", "eve", "because"); err != nil || changed != true {
			t.Errorf("pause by eve: %v, %v", changed, err)
		}
		before, after := f.audited("pause")
		if before["paused_at"] != nil || after["paused_by"] != "eve" {
			t.Errorf("audit before %v, after %v", before, after)
		}
		if changed, err := f.Pause(ctx, "feed", "mallory", "later"); err != nil || changed != false {
			t.Errorf("pause by mallory: %v, %v", changed, err)
		}
		s := f.status()
		if s.Paused == nil || s.Paused.By != "eve" || s.Paused.Reason != exporter.PausedByPerson || s.State() != Paused {
			t.Errorf("status is %+v", s)
		}
		for name, write := range writes(t, c.twin()) {
			if name == "release" || name == "pause" {
				continue
			}
			var paused *PausedError
			if err := write(ctx); !errors.Is(err, exporter.ErrFenced) || !errors.As(err, &paused) {
				t.Errorf("%s of a paused owner: %v", name, err)
			}
		}
		must(t, c.Pause(ctx, &exporter.PauseError{Reason: exporter.PausedSink, Detail: "403"}))
		must(t, c.Release(ctx, true))
		if changed, err := f.Resume(ctx, "feed", "eve", "because"); err != nil || changed != true {
			t.Errorf("resume by eve: %v, %v", changed, err)
		}
		f.audited("resume")
		if changed, err := f.Resume(ctx, "feed", "mallory", "again"); err != nil || changed != false {
			t.Errorf("resume by mallory: %v, %v", changed, err)
		}
		f.audited("resume")

		c, state := f.claim("a")
		if !state.Position.Equal(exporter.Position{}) || state.Intent == nil {
			t.Errorf("a pause moved the cursor: %+v", state)
		}
		must(t, c.Renew(ctx, Heartbeat{LastError: "refused"}))
		must(t, c.Pause(ctx, &exporter.PauseError{Reason: exporter.PausedSourceChanged, Detail: "because"}))
		if s := f.status(); s.LastError != "" || s.LastErrorAt != nil {
			t.Errorf("paused, and still stuck on %q", s.LastError)
		}
		if who, command, _, _, _ := f.audit(); who != "a" || command != "pause" {
			t.Errorf("audit says %s %s", who, command)
		}
		if s := f.status(); s.Paused == nil || s.Paused.Reason != exporter.PausedSourceChanged || s.Paused.Detail != "because" || s.Paused.By != "a" {
			t.Errorf("status is %+v", s.Paused)
		}
		for _, err := range []error{failed(f.Pause(ctx, "nobody", "x", "y")), failed(f.Resume(ctx, "nobody", "x", "y"))} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("no such consumer: %v", err)
			}
		}
	})
}

// An owner that has not noticed a pause before it ended goes on.
func TestPauseThatNobodyNoticed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, failed(f.Pause(t.Context(), "feed", "eve", "because")))
	must(t, failed(f.Resume(t.Context(), "feed", "eve", "because")))
	must(t, c.Renew(t.Context(), Heartbeat{}))
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "10")}))
}

// A set with a batch in flight forgets it: the next owner has no intent, a new
// batch number, and the earlier one is fenced.
func TestSet(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		c, _ := f.claim("a")
		must(t, c.Accept(ctx, exporter.Acceptance{To: at(t, "9"), Dead: ids(t, "{[2,3],[5,8]}")}))
		must(t, c.Begin(ctx, intent(t, 1, 1, "20")))
		late := c.twin()
		var owned *OwnedError
		if err := f.Set(ctx, "feed", at(t, "6"), false, "eve", "because"); !errors.As(err, &owned) || f.stored() == "" {
			t.Errorf("set of a consumer that is owned: %v", err)
		}
		must(t, f.Set(ctx, "feed", at(t, "6-{[4,4]}"), true, "eve", "because"))
		before, after := f.audited("set")
		if before["high_id"] != 9.0 || after["high_id"] != 6.0 || before["intent_high"] != 20.0 || after["intent_high"] != nil {
			t.Errorf("audit before %v, after %v", before, after)
		}
		row := f.stored()
		for name, write := range writes(t, late) {
			if err := write(ctx); !errors.Is(err, exporter.ErrFenced) || !strings.Contains(err.Error(), "a person has moved the cursor") {
				t.Errorf("%s after a set: %v", name, err)
			}
		}
		if now := f.stored(); now != row {
			t.Errorf("the row changed\nfrom %s\nto   %s", row, now)
		}
		_, state := f.claim("a")
		if !state.Position.Equal(at(t, "6-{[4,4]}")) || state.Intent != nil || state.Number != 2 || state.Dead.String() != "{[2,3],[5,6]}" {
			t.Errorf("state is %+v", state)
		}
		if err := f.Set(ctx, "nobody", at(t, "1"), true, "x", "y"); !errors.Is(err, ErrNotFound) {
			t.Errorf("set of no consumer: %v", err)
		}
	})
}

// Rename and remove refuse while somebody owns the consumer, and keep what was
// recorded about it.
func TestRenameAndRemove(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		c, state := f.claim("a")
		must(t, c.Begin(ctx, intent(t, 1, 1, "10")))
		must(t, c.Accept(ctx, exporter.Acceptance{
			Number: 1, To: at(t, "10"), DeadLetters: []exporter.DeadLetter{deadLetter(3)},
			Lost: []exporter.Loss{{Kind: exporter.LossDeliveryUnknown, IDs: exporter.Range{Lo: 4, Hi: 5}, Count: 1, Reason: "gone"}},
		}))
		var owned *OwnedError
		if err := f.Rename(ctx, "feed", "fed", "eve", "because"); !errors.As(err, &owned) || owned.Owner != "a" {
			t.Errorf("rename of an owned consumer: %v", err)
		}
		if err := f.Remove(ctx, "feed", "eve", "because"); !errors.As(err, &owned) {
			t.Errorf("remove of an owned consumer: %v", err)
		}
		must(t, c.Release(ctx, false))
		f.create("other")
		if err := f.Rename(ctx, "feed", "other", "eve", "because"); err == nil || !strings.Contains(err.Error(), "there is a consumer of that name already") {
			t.Errorf("rename to a name that is taken: %v", err)
		}
		if err := f.Rename(ctx, "feed", "Fed!", "eve", "because"); err == nil || !strings.Contains(err.Error(), `consumer name "Fed!"`) {
			t.Errorf("rename to a bad name: %v", err)
		}
		must(t, f.Rename(ctx, "feed", "fed", "eve", "because"))
		if before, after := f.audited("rename"); before["name"] != "feed" || after["name"] != "fed" {
			t.Errorf("audit before %v, after %v", before, after)
		}
		s, err := f.Get(ctx, "fed")
		if err != nil || s.UID != state.UID || s.DeadLetters != 1 || s.Losses != 1 || !s.Position.Equal(at(t, "10")) {
			t.Errorf("renamed to %+v, %v", s, err)
		}
		if n := f.count("{dead_letters}", "consumer = 'fed'") + f.count("{losses}", "consumer = 'fed'"); n != 2 {
			t.Errorf("%d records follow the rename, want 2", n)
		}

		must(t, f.Remove(ctx, "fed", "eve", "because"))
		if before, after := f.audited("remove"); before["high_id"] != 10.0 || after != nil {
			t.Errorf("audit before %v, after %v", before, after)
		}
		if err := c.Begin(ctx, intent(t, 2, 1, "20")); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("begin on a removed consumer: %v", err)
		}
		f.create("fed")
		s, err = f.Get(ctx, "fed")
		if err != nil || s.UID == state.UID || s.DeadLetters != 0 || !s.Position.Equal(exporter.Position{}) {
			t.Errorf("a new consumer of the old name is %+v, %v", s, err)
		}
		if n := f.count("{dead_letters}", "consumer = 'fed'") + f.count("{losses}", "consumer = 'fed'"); n != 2 {
			t.Errorf("%d records outlive the consumer, want 2", n)
		}
		for _, err := range []error{f.Remove(ctx, "feed", "x", "y"), f.Rename(ctx, "feed", "z", "x", "y")} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("no such consumer: %v", err)
			}
		}
	})
}

// Commands at the same moment as an owner's writes lose neither.
func TestCommandsBesideWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	done := make(chan error, 1)
	go func() {
		for range 50 {
			if err := errors.Join(failed(f.Pause(t.Context(), "feed", "eve", "because")), failed(f.Resume(t.Context(), "feed", "eve", "because"))); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	moved := int64(0)
	for running := true; running; {
		select {
		case err := <-done:
			must(t, err)
			running = false
		default:
		}
		err := c.Accept(t.Context(), exporter.Acceptance{To: exporter.Position{High: moved + 1}, Events: 1})
		var paused *PausedError
		switch {
		case err == nil:
			moved++
		case !errors.As(err, &paused) && !strings.Contains(err.Error(), "a newer write of ours"): // resumed before it looked
			t.Fatal(err)
		}
	}
	if s := f.status(); s.Position.High != moved || s.EventsAccepted != moved {
		t.Errorf("position %s, %d events, want %d", s.Position, s.EventsAccepted, moved)
	}
	if n := f.count("{audit}", "command IN ('pause', 'resume')"); n != 100 {
		t.Errorf("%d audit records, want 100", n)
	}
}

func TestBindSource(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		must(t, f.BindSource(ctx, "public", -7))
		must(t, f.BindSource(ctx, "public", -7))
		err := f.BindSource(ctx, "tenants", -7)
		if err == nil || !strings.Contains(err.Error(), `"public"`) || !strings.Contains(err.Error(), `"tenants"`) {
			t.Errorf("another schema: %v", err)
		}
		err = f.BindSource(ctx, "public", 8)
		var pause *exporter.PauseError
		if !errors.As(err, &pause) || pause.Reason != exporter.PausedSourceChanged || !strings.Contains(err.Error(), "-7") || !strings.Contains(err.Error(), " 8") {
			t.Errorf("another system: %v", err)
		}
	})
}

// The views say what Status says, and nobody can write through them.
func TestViews(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	view := func(name string) string { return strings.Replace(f.sql("{source}"), "source", name, 1) }
	c, _ := f.claim("a")
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "20-{[3,3],[7,12]}"), DeadLetters: []exporter.DeadLetter{deadLetter(4)}}))
	must(t, c.Renew(t.Context(), Heartbeat{Holders: []exporter.Holder{{Transaction: "4/1", Since: time.Now()}}}))
	for _, state := range []string{Running, Paused, Unowned} {
		switch state {
		case Paused:
			must(t, failed(f.Pause(t.Context(), "feed", "eve", "because")))
		case Unowned:
			must(t, failed(f.Resume(t.Context(), "feed", "eve", "because")))
			f.expire()
		}
		s := f.status()
		got := pgtest.Value[string](t, f.admin, "SELECT state || ' ' || position || ' ' || dead_letters || ' ' || open_ranges FROM "+view("export_status"))
		if want := state + " " + s.Position.String() + " 1 2"; got != want || s.State() != state {
			t.Errorf("the view says %q and the status %s, want %q", got, s.State(), want)
		}
	}
	got := pgtest.Value[string](t, f.admin, "SELECT string_agg(concat_ws('-', consumer, first_id, last_id, ids, holders->0->>'transaction'), ' ' ORDER BY first_id) FROM "+view("export_holes"))
	if want := "feed-3-3-1-4/1 feed-7-12-6-4/1"; got != want {
		t.Errorf("holes are %q, want %q", got, want)
	}
	if n := pgtest.Value[int](t, f.admin, "SELECT count(*)::int FROM "+view("export_dead_letters")+" WHERE consumer = 'feed' AND NOT consumer_removed AND bytes = 5"); n != 1 {
		t.Errorf("%d dead letters in the view", n)
	}
	for _, name := range []string{"export_status", "export_holes", "export_dead_letters"} {
		if _, err := f.admin.Exec(t.Context(), "DELETE FROM "+view(name)); err == nil {
			t.Errorf("deleted through %s", name)
		}
	}
}
