package cursor

import (
	"context"
	"errors"
	"testing"

	exporter "github.com/docket-exporter/exporter"
)

// A batch goes from nothing to in flight to accepted, also over attempts and a
// crash, and a new owner finds exactly what was written.
func TestBatchLife(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		a, state := f.claim("a")
		if state.Intent != nil || state.Number != 0 || !state.Position.Equal(exporter.Position{}) || state.UID == "" {
			t.Fatalf("fresh state is %+v", state)
		}
		must(t, a.Begin(t.Context(), intent(t, 1, 1, "10-{[4,4],[7,8]}")))
		must(t, a.Begin(t.Context(), intent(t, 1, 2, "10-{[4,4],[7,8]}")))

		f.expire()
		b, state := f.claim("b")
		want := intent(t, 1, 2, "10-{[4,4],[7,8]}")
		if state.Number != 1 || !sameIntent(state.Intent, &want) || !state.Position.Equal(exporter.Position{}) {
			t.Fatalf("state after a crash is %+v, intent %+v", state, state.Intent)
		}
		must(t, b.Begin(t.Context(), intent(t, 1, 3, "10-{[4,4],[7,8]}")))
		last := exporter.Identity{RunID: "r", Seq: 9, EventID: 10}
		must(t, b.Accept(t.Context(), exporter.Acceptance{
			Number: 1, To: at(t, "10-{[4,4],[7,8]}"), Dead: ids(t, "{[2,3]}"), Events: 5, Last: &last,
		}))
		must(t, b.Accept(t.Context(), exporter.Acceptance{Number: 1, To: at(t, "12-{[7,8]}"), Dead: ids(t, "{[2,3]}")}))
		must(t, b.Begin(t.Context(), intent(t, 2, 1, "20")))
		must(t, b.Accept(t.Context(), exporter.Acceptance{Number: 2, To: at(t, "20"), Dead: ids(t, "{[2,4]}"), Events: 2}))
		must(t, b.Release(t.Context(), false))

		_, state = f.claim("c")
		if !state.Position.Equal(at(t, "20")) || state.Number != 2 || state.Intent != nil || state.Dead.String() != "{[2,4]}" {
			t.Errorf("state is %+v", state)
		}
		s := f.status()
		if s.EventsAccepted != 7 || s.AcceptedAt == nil || s.Last == nil || *s.Last != last || s.Epoch != 3 {
			t.Errorf("status is %+v, last %+v", s, s.Last)
		}
	})
}

// A batch that is known when the one before is accepted begins in the same
// write; a crash after it finds both.
func TestAcceptBeginsTheNextBatch(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		a, _ := f.claim("a")
		must(t, a.Begin(t.Context(), intent(t, 1, 1, "10-{[4,4]}")))
		next := intent(t, 2, 1, "20-{[15,15]}")
		first := exporter.Acceptance{Number: 1, To: at(t, "10-{[4,4]}"), Events: 5, Next: &next}
		lost := a.twin()
		must(t, a.Accept(t.Context(), first))
		must(t, lost.Accept(t.Context(), first)) // its answer got lost: written once, and known

		f.expire()
		b, state := f.claim("b")
		if state.Number != 2 || !sameIntent(state.Intent, &next) || !state.Position.Equal(at(t, "10-{[4,4]}")) || f.status().EventsAccepted != 5 {
			t.Fatalf("state %+v, intent %+v", state, state.Intent)
		}
		must(t, b.Begin(t.Context(), intent(t, 2, 2, "20-{[15,15]}")))
		for name, wrong := range map[string]exporter.Intent{
			"the same number": intent(t, 2, 1, "30"), "a later number": intent(t, 4, 1, "30"),
			"a later attempt": intent(t, 3, 2, "30"), "a position that opens ids": intent(t, 3, 1, "30-{[16,16]}"),
		} {
			if err := b.Accept(t.Context(), exporter.Acceptance{Number: 2, To: at(t, "20-{[15,15]}"), Next: &wrong}); err == nil {
				t.Errorf("accepted with %s to begin", name)
			}
		}
	})
}

// writes are all fenced writes, fit for a cursor that has begun batch 1.
func writes(t *testing.T, c *Cursor) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"begin": func(ctx context.Context) error { return c.Begin(ctx, intent(t, 1, 2, "10")) },
		"accept": func(ctx context.Context) error {
			return c.Accept(ctx, exporter.Acceptance{Number: 1, To: at(t, "10"), Events: 1})
		},
		"accept and begin the next": func(ctx context.Context) error {
			next := intent(t, 2, 1, "20")
			return c.Accept(ctx, exporter.Acceptance{Number: 1, To: at(t, "10"), Events: 1, Next: &next})
		},
		"accept with records": func(ctx context.Context) error {
			return c.Accept(ctx, exporter.Acceptance{
				Number: 1, To: at(t, "10"), DeadLetters: []exporter.DeadLetter{deadLetter(3)},
				Lost: []exporter.Loss{{Kind: exporter.LossDeliveryUnknown, IDs: exporter.Range{Lo: 1, Hi: 2}, Count: 2, Reason: "gone"}},
			})
		},
		"pause": func(ctx context.Context) error {
			return c.Pause(ctx, &exporter.PauseError{Reason: exporter.PausedSink, Detail: "403"})
		},
		"renew":   func(ctx context.Context) error { return c.Renew(ctx, Heartbeat{LastError: "stale"}) },
		"release": func(ctx context.Context) error { return c.Release(ctx, true) },
	}
}

// An owner that was taken over, and does not know it, changes nothing: neither
// while the new owner works nor after it has left.
func TestStaleOwnerChangesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		stale, _ := f.claim("a")
		must(t, stale.Begin(t.Context(), intent(t, 1, 1, "10")))
		f.expire()
		fresh, _ := f.claim("b")
		for _, phase := range []string{"owned by another", "given up by another"} {
			before := f.stored()
			for name, write := range writes(t, stale.twin()) {
				if err := write(t.Context()); !errors.Is(err, exporter.ErrFenced) {
					t.Errorf("%s of a stale owner while %s: %v", name, phase, err)
				}
			}
			if after := f.stored(); after != before {
				t.Errorf("the row changed while %s\nfrom %s\nto   %s", phase, before, after)
			}
			if phase == "owned by another" {
				must(t, fresh.Release(t.Context(), false))
			}
		}
		if n := f.count("{dead_letters}", "true") + f.count("{losses}", "true") + f.count("{audit}", "command <> 'create'"); n != 0 {
			t.Errorf("the stale owner left %d records", n)
		}
	})
}

// Every write of an owner, arriving late, changes nothing once a newer one of
// the same epoch went through.
func TestDelayedWriteOfTheSameEpoch(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "5-{[3,3]}")}))
		late := map[string]func() error{}
		steps := []struct {
			name  string
			write func(c *Cursor) error
		}{
			{"move", func(c *Cursor) error {
				return c.Accept(t.Context(), exporter.Acceptance{Number: 0, To: at(t, "6-{[3,3]}")})
			}},
			{"begin 1", func(c *Cursor) error { return c.Begin(t.Context(), intent(t, 1, 1, "8-{[3,3]}")) }},
			{"begin 1 again", func(c *Cursor) error { return c.Begin(t.Context(), intent(t, 1, 2, "8-{[3,3]}")) }},
			{"accept 1", func(c *Cursor) error {
				return c.Accept(t.Context(), exporter.Acceptance{Number: 1, To: at(t, "8-{[3,3]}"), Events: 1})
			}},
			{"reopen", func(c *Cursor) error { return c.Reopen(t.Context(), at(t, "8-{[2,3]}"), nil) }},
			{"begin 2", func(c *Cursor) error { return c.Begin(t.Context(), intent(t, 2, 1, "9")) }},
			{"accept 2", func(c *Cursor) error {
				return c.Accept(t.Context(), exporter.Acceptance{Number: 2, To: at(t, "9"), Events: 1})
			}},
		}
		for _, step := range steps {
			twin := c.twin()
			late[step.name] = func() error { return step.write(twin) }
			must(t, step.write(c))
		}
		must(t, c.Begin(t.Context(), intent(t, 3, 1, "20")))
		check := func(phase string) {
			before := f.stored()
			for name, write := range late {
				if err := write(); !errors.Is(err, exporter.ErrFenced) {
					t.Errorf("late %s %s: %v", name, phase, err)
				}
			}
			if after := f.stored(); after != before {
				t.Errorf("a late write changed the row %s\nfrom %s\nto   %s", phase, before, after)
			}
		}
		check("while batch 3 is in flight")
		must(t, c.Accept(t.Context(), exporter.Acceptance{Number: 3, To: at(t, "20")}))
		check("after batch 3")
		must(t, c.Release(t.Context(), false))
		check("after the release")
	})
}

// A write whose answer got lost is a success when it is made again, and counts once.
func TestLostAnswer(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		for _, write := range []func(c *Cursor) error{
			func(c *Cursor) error { return c.Begin(t.Context(), intent(t, 1, 1, "10-{[3,3]}")) },
			func(c *Cursor) error {
				return c.Accept(t.Context(), exporter.Acceptance{
					Number: 1, To: at(t, "10-{[3,3]}"), Events: 4, DeadLetters: []exporter.DeadLetter{deadLetter(5)},
					Lost: []exporter.Loss{{Kind: exporter.LossDeliveryUnknown, IDs: exporter.Range{Lo: 6, Hi: 7}, Count: 2, Reason: "gone"}},
				})
			},
			func(c *Cursor) error { return c.Accept(t.Context(), exporter.Acceptance{Number: 1, To: at(t, "11")}) },
			func(c *Cursor) error { return c.Reopen(t.Context(), at(t, "11-{[2,2]}"), nil) },
			func(c *Cursor) error { return c.Begin(t.Context(), intent(t, 2, 1, "12")) },
			func(c *Cursor) error {
				return c.Pause(t.Context(), &exporter.PauseError{Reason: exporter.PausedSink, Detail: "403"})
			},
			func(c *Cursor) error { return c.Release(t.Context(), true) },
		} {
			must(t, write(c.twin()))
			must(t, write(c))
		}
		s := f.status()
		if s.EventsAccepted != 4 || s.DeadLetters != 1 || s.Losses != 1 || s.Intent == nil || s.Intent.Attempt != 0 {
			t.Errorf("status is %+v, intent %+v", s, s.Intent)
		}
	})
}

// Two different writes made for one revision: the second is refused, although
// the first was this owner's own.
func TestOneWritePerRevision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, c.twin().Accept(t.Context(), exporter.Acceptance{To: at(t, "10")}))
	before := f.stored()
	if err := c.twin().Accept(t.Context(), exporter.Acceptance{To: at(t, "12")}); !errors.Is(err, exporter.ErrFenced) {
		t.Errorf("another move: %v", err)
	}
	if err := c.twin().Begin(t.Context(), intent(t, 1, 1, "12")); !errors.Is(err, exporter.ErrFenced) {
		t.Errorf("begin instead of the move: %v", err)
	}
	if after := f.stored(); after != before {
		t.Errorf("the row changed\nfrom %s\nto   %s", before, after)
	}
}

// A write that was under way when its owner released the consumer changes
// nothing, even though no newer owner has come.
func TestWriteUnderWayAtRelease(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		must(t, c.Begin(t.Context(), intent(t, 1, 1, "10")))
		late := c.twin()
		must(t, c.Release(t.Context(), true))
		before := f.stored()
		for name, write := range writes(t, late) {
			if name == "release" || name == "pause" { // release is done, and whoever may pause may do it later too
				continue
			}
			if err := write(t.Context()); !errors.Is(err, exporter.ErrFenced) {
				t.Errorf("%s after the release: %v", name, err)
			}
		}
		if after := f.stored(); after != before {
			t.Errorf("the row changed\nfrom %s\nto   %s", before, after)
		}
	})
}
