package exporter_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing/synctest"
	"time"

	"github.com/docket-exporter/exporter"
)

// store is a consumer's row.
type store struct {
	position        exporter.Position
	dead            exporter.Ranges
	number          int64
	intent          *exporter.Intent
	letters         []exporter.DeadLetter
	decided         map[int64]bool // dead letters by event
	losses          []exporter.Loss
	events          int // sum of what acceptances said
	epoch, revision int
	written         any  // the last write
	refused         bool // a write of a stale owner
	accepted        []time.Time
}

// owner is a claim of the consumer, as far as its last answer told it.
type owner struct {
	*world
	epoch, revision int
}

func (w *world) claim() (*owner, exporter.State) {
	s := &w.store
	s.epoch++
	s.refused = false
	return &owner{w, s.epoch, s.revision}, exporter.State{Position: s.position, Dead: s.dead, Number: s.number, Intent: s.intent}
}

// write makes one fenced write. Of a write that did not count it tells apart
// the one whose answer got lost and the one that is stale.
func (o *owner) write(before, after string, v any, apply func(*store)) error {
	synctest.Wait()
	defer o.serve()()
	if err := o.point(before); err != nil {
		return err
	}
	s := &o.store
	if a, ok := v.(exporter.Acceptance); ok && s.epoch == o.epoch && s.revision == o.revision {
		if err := s.holds(a.DeadLetters); err != nil {
			return err
		}
	}
	switch {
	case s.epoch == o.epoch && s.revision == o.revision:
		apply(s)
		s.written, s.revision = v, s.revision+1
	case s.epoch == o.epoch && s.revision == o.revision+1 && reflect.DeepEqual(s.written, v):
	default:
		s.refused = true
		return fmt.Errorf("%s: %w", before, exporter.ErrFenced)
	}
	if err := o.point(after); err != nil {
		return err
	}
	o.revision = s.revision
	return nil
}

// Begin implements exporter.Cursor.
func (o *owner) Begin(_ context.Context, in exporter.Intent) error {
	return o.write("begin", "begun", in, func(s *store) {
		next := in.Number == s.number+1 && in.Attempt == 1
		if was := s.intent; was != nil {
			next = in.Number == was.Number && in.Attempt == was.Attempt+1 && in.To.Covers(was.To) // the same batch, or that with what came since
		}
		if !next || !in.To.Covers(s.position) {
			o.t.Fatalf("begin %+v at %v after batch %d, %+v", in, s.position, s.number, s.intent)
		}
		s.number, s.intent = in.Number, &in
	})
}

// Accept implements exporter.Cursor.
func (o *owner) Accept(_ context.Context, a exporter.Acceptance) error {
	return o.write("accept", "accepted", a, func(s *store) {
		if !a.To.Covers(s.position) || a.Number != s.number {
			o.t.Fatalf("accept %+v at %v after batch %d", a, s.position, s.number)
		}
		if s.intent != nil && !a.To.Equal(s.intent.To) {
			o.t.Fatalf("accept %v, begun was %v", a.To, s.intent.To)
		}
		o.checkPassed(a)
		s.position, s.dead, s.intent = a.To, a.Dead, nil
		if next := a.Next; next != nil {
			if next.Number != s.number+1 || next.Attempt != 1 || !next.To.Covers(a.To) {
				o.t.Fatalf("accept %+v begins %+v", a, next)
			}
			s.number, s.intent = next.Number, next
		}
		s.letters = append(s.letters, a.DeadLetters...)
		s.events += a.Events
		s.losses = append(s.losses, a.Lost...)
		s.accepted = append(s.accepted, time.Now())
	})
}

// holds refuses events that are to be held behind nothing.
func (s *store) holds(letters []exporter.DeadLetter) error {
	var no exporter.ReleasedError
	all := slices.Concat(s.letters, letters)
	for i := range letters {
		l := &letters[i]
		behind := func(x exporter.DeadLetter) bool {
			return x.Event.RunID == l.Event.RunID && x.Event.Seq < l.Event.Seq && x.Class != exporter.ClassExpired && !s.decided[x.Event.ID]
		}
		if l.Class == exporter.ClassHeld && !slices.ContainsFunc(all, behind) && !slices.Contains(no.Runs, l.Event.RunID) {
			no.Runs = append(no.Runs, l.Event.RunID)
		}
	}
	if len(no.Runs) > 0 {
		return &no
	}
	return nil
}

// checkPassed checks that everything a position passes is filtered, taken, or
// put aside with it.
func (o *owner) checkPassed(a exporter.Acceptance) {
	o.t.Helper()
	passed := o.between(o.store.position, a.To)
	letters := map[int64]bool{}
	for _, l := range a.DeadLetters {
		r, ok := passed[l.Event.ID]
		if !ok || letters[r.ID] || !r.poison && !r.refused && l.Class != exporter.ClassHeld && l.Class != exporter.ClassExpired {
			o.t.Fatalf("dead letter of event %d in %+v", l.Event.ID, a)
		}
		letters[r.ID] = true
	}
	events, last := 0, int64(0)
	for id, r := range passed {
		if r.filtered || letters[id] {
			continue
		}
		if o.taken[id] == 0 {
			o.t.Fatalf("event %d was passed on the way to %v without having been taken", id, a.To)
		}
		events, last = events+1, max(last, id)
	}
	if a.Events != events || (a.Last == nil) != (events == 0) || a.Last != nil && a.Last.EventID != last {
		o.t.Fatalf("acceptance of %d events, the last %+v; want %d, the last %d", a.Events, a.Last, events, last)
	}
}

// Reopen implements exporter.Cursor.
func (o *owner) Reopen(_ context.Context, to exporter.Position, dead exporter.Ranges) error {
	return o.write("reopen", "reopened", []any{to, dead}, func(s *store) {
		if back := s.position.Minus(to); s.intent != nil || to.High < s.position.High || len(back.Minus(s.dead)) > 0 {
			o.t.Fatalf("reopen %v at %v, dead are %v", to, s.position, s.dead)
		}
		s.position, s.dead = to, dead
	})
}
