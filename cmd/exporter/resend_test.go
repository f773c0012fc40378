package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	exporter "github.com/docket-exporter/exporter"
)

// desk is a sink and the command that sends to it. The sink gives one answer
// after the other and then accepts, but never an event that is poison.
type desk struct {
	answers []func(exporter.Batch) error
	poison  map[int64]bool // event ids; it does not name them
	sizes   []int          // of the requests
	tries   []int
	took    []int64
	told    []int64 // accepted, as the command was told
	dead    []int64 // refused, as the command was told
	why     string  // of the last of those
	hold    bool    // a run goes no further than an event that was refused
	held    []int64
	gone    map[int64]bool // may not go any more
	lost    error          // of what is accepted, from the second time on
}

func (d *desk) Deliver(ctx context.Context, b exporter.Batch) error {
	d.sizes, d.tries = append(d.sizes, len(b.Events)), append(d.tries, b.Attempt)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(d.answers) > 0 {
		answer := d.answers[0]
		if d.answers = d.answers[1:]; answer != nil {
			return answer(b)
		}
	}
	for _, e := range b.Events {
		if d.poison[e.ID] {
			return &exporter.RefusedError{Err: errors.New("something in it"), Class: "unfit"}
		}
	}
	d.take(b.Events)
	return nil
}

func (d *desk) take(events []exporter.Event) {
	for _, e := range events {
		d.took = append(d.took, e.ID)
	}
}

// partly accepts what is at the places and leaves the rest.
func (d *desk) partly(places ...int) func(exporter.Batch) error {
	return func(b exporter.Batch) error {
		var pending []exporter.Event
		for i, e := range b.Events {
			if slices.Contains(places, i) {
				d.take(b.Events[i : i+1])
			} else {
				pending = append(pending, e)
			}
		}
		return &exporter.PartialError{Pending: pending, Err: &exporter.RefusedError{Err: errors.New("another time")}}
	}
}

func (d *desk) ready(events []exporter.Event) ([]exporter.Event, error) {
	return slices.DeleteFunc(slices.Clone(events), func(e exporter.Event) bool { return d.gone[e.ID] }), nil
}

func (d *desk) request(events []exporter.Event, attempt int) exporter.Batch {
	return exporter.Batch{Attempt: attempt, Events: events}
}

func (d *desk) accepted(events []exporter.Event) error {
	if d.lost != nil && len(d.told) > 0 {
		return d.lost
	}
	d.told = append(d.told, idsOfEvents(events)...)
	return nil
}

func (d *desk) refused(e exporter.Event, why string, later []exporter.Event) []exporter.Event {
	d.dead, d.why = append(d.dead, e.ID), why
	return slices.DeleteFunc(slices.Clone(later), func(l exporter.Event) bool {
		if d.hold && l.RunID == e.RunID {
			d.held = append(d.held, l.ID)
			return true
		}
		return false
	})
}

func idsOfEvents(events []exporter.Event) (ids []int64) {
	for i := range events {
		ids = append(ids, events[i].ID)
	}
	return ids
}

// numbered returns n events with the ids from 1 on, in order, of runs of three.
func numbered(n int) (events []exporter.Event) {
	for id := range n {
		events = append(events, exporter.Event{ID: int64(id + 1), RunID: fmt.Sprintf("%04d", id/3), Seq: int64(id%3 + 1)})
	}
	return events
}

func (d *desk) resend(ctx context.Context, n int) (tried, later []int64, err error) {
	r := resender{sink: d, owner: d, what: "events", limit: time.Minute, log: slog.New(slog.DiscardHandler)}
	a, b, err := r.send(ctx, numbered(n))
	return idsOfEvents(a), idsOfEvents(b), err
}

func away(exporter.Batch) error { return errors.New("connection refused") }

func TestResendAnswers(t *testing.T) {
	pause := func(exporter.Batch) error {
		return fmt.Errorf("deliver: %w", &exporter.PauseError{Reason: exporter.PausedSink, Detail: "no such table"})
	}
	second := func(b exporter.Batch) error {
		return &exporter.RejectedError{Rejections: []exporter.Rejection{{Event: b.Events[1], Class: "too_large", Reason: "9 bytes"}}}
	}
	stranger := func(exporter.Batch) error {
		return &exporter.RejectedError{Rejections: []exporter.Rejection{{Class: "refused"}}}
	}
	later := func(exporter.Batch) error {
		return &exporter.RetryAfterError{After: time.Hour, Err: errors.New("busy")}
	}
	type answers = []func(exporter.Batch) error
	for name, c := range map[string]struct {
		desk         desk
		answers      func(d *desk) answers
		sizes, tries []int
		told, dead   []int64
		held         []int64
		tried, later []int64
		why          string
		err          string
		took         time.Duration // at least
	}{
		"accepted":        {sizes: []int{4}, tries: []int{1}, told: []int64{1, 2, 3, 4}},
		"away for a time": {answers: func(*desk) answers { return answers{away, away} }, sizes: []int{4, 4, 4}, tries: []int{1, 2, 3}, told: []int64{1, 2, 3, 4}, took: 100 * time.Millisecond},
		"away": {
			answers: func(*desk) answers { return answers{away, away, away, away, away} },
			sizes:   []int{4, 4, 4, 4, 4}, tries: []int{1, 2, 3, 4, 5}, tried: []int64{1, 2, 3, 4}, err: "connection refused",
		},
		"asks for time": {answers: func(*desk) answers { return answers{later} }, sizes: []int{4, 4}, tries: []int{1, 2}, told: []int64{1, 2, 3, 4}, took: longestPause},
		"wants a person": {
			answers: func(*desk) answers { return answers{pause} },
			sizes:   []int{4}, tries: []int{1}, tried: []int64{1, 2, 3, 4}, err: "deliver: sink: no such table",
		},
		"names one": {
			answers: func(*desk) answers { return answers{second} },
			sizes:   []int{4, 3}, tries: []int{1, 1}, told: []int64{1, 3, 4}, dead: []int64{2}, why: "too_large: 9 bytes",
		},
		"names one of a run": {
			desk: desk{hold: true}, answers: func(*desk) answers { return answers{second} },
			sizes: []int{4, 2}, tries: []int{1, 1}, told: []int64{1, 4}, dead: []int64{2}, held: []int64{3}, why: "too_large: 9 bytes",
		},
		"names a stranger": {
			answers: func(*desk) answers { return answers{stranger, stranger, stranger, stranger, stranger} },
			sizes:   []int{4, 4, 4, 4, 4}, tries: []int{1, 2, 3, 4, 5}, tried: []int64{1, 2, 3, 4}, err: "1 events rejected",
		},
		"takes a part": {
			answers: func(d *desk) answers { return answers{d.partly(0, 3)} },
			sizes:   []int{4, 2}, tries: []int{1, 2}, told: []int64{1, 4, 2, 3},
		},
		"takes a part, and is away": {
			answers: func(d *desk) answers { return answers{d.partly(0, 3), away, away, away, away} },
			sizes:   []int{4, 2, 2, 2, 2}, tries: []int{1, 2, 3, 4, 5}, told: []int64{1, 4}, tried: []int64{2, 3}, err: "connection refused",
		},
		"refuses one": {
			desk:  desk{poison: map[int64]bool{2: true}},
			sizes: []int{4, 2, 1, 2, 1, 1, 1}, tries: []int{1, 1, 1, 1, 1, 1, 1}, told: []int64{1, 3, 4}, dead: []int64{2}, why: "refused: something in it",
		},
		"refuses one of a run": {
			desk:  desk{poison: map[int64]bool{1: true}, hold: true},
			sizes: []int{4, 2, 1, 1}, tries: []int{1, 1, 1, 1}, told: []int64{4}, dead: []int64{1}, held: []int64{2, 3}, why: "refused: something in it",
		},
		"refuses one, and is away": {
			desk: desk{poison: map[int64]bool{3: true}}, answers: func(*desk) answers { return answers{nil, away, away, away, away, away} },
			sizes: []int{4, 2, 2, 2, 2, 2}, tries: []int{1, 1, 2, 3, 4, 5}, tried: []int64{1, 2}, later: []int64{3, 4}, err: "connection refused",
		},
		"not ours any more": {desk: desk{gone: map[int64]bool{1: true, 3: true}}, sizes: []int{2}, tries: []int{1}, told: []int64{2, 4}},
		"cannot be recorded": {
			desk: desk{poison: map[int64]bool{4: true}, lost: errors.New("no database")}, answers: func(d *desk) answers { return answers{nil, d.partly(0)} },
			sizes: []int{4, 2, 1}, tries: []int{1, 1, 2}, told: []int64{1}, later: []int64{3, 4}, err: "no database",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := c.desk
				if c.answers != nil {
					d.answers = c.answers(&d)
				}
				begin := time.Now()
				tried, later, err := d.resend(t.Context(), 4)
				if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				for what, x := range map[string][2][]int64{"told": {d.told, c.told}, "dead": {d.dead, c.dead}, "held": {d.held, c.held}, "tried": {tried, c.tried}, "later": {later, c.later}} {
					if !slices.Equal(x[0], x[1]) {
						t.Errorf("%s %v, want %v", what, x[0], x[1])
					}
				}
				if !slices.Equal(d.sizes, c.sizes) || !slices.Equal(d.tries, c.tries) || d.why != c.why {
					t.Errorf("requests of %v, attempts %v, why %q; want %v, %v, %q", d.sizes, d.tries, d.why, c.sizes, c.tries, c.why)
				}
				if took := time.Since(begin); took < c.took {
					t.Errorf("it took %v, want at least %v", took, c.took)
				}
			})
		})
	}
}

// A person who interrupts need not wait for the sink.
func TestResendInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d := desk{answers: []func(exporter.Batch) error{func(exporter.Batch) error {
			return &exporter.RetryAfterError{After: time.Hour, Err: errors.New("busy")}
		}}}
		begin := time.Now()
		tried, _, err := d.resend(ctx, 2)
		if !errors.Is(err, context.DeadlineExceeded) || len(tried) != 2 || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v, %v", time.Since(begin), tried, err)
		}
	})
}

// Whatever a sink answers, each event is accepted, refused, held or left, once;
// of a run no event is accepted after a later one, and the search is short.
func TestResendRandomAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "events")
		d := desk{poison: map[int64]bool{}, hold: rapid.Bool().Draw(t, "hold")}
		for range rapid.IntRange(0, 5).Draw(t, "poison") {
			d.poison[int64(rapid.IntRange(1, n).Draw(t, "id"))] = true
		}
		for range rapid.IntRange(0, 10).Draw(t, "answers") {
			d.answers = append(d.answers, rapid.SampledFrom([]func(exporter.Batch) error{nil, nil, func(b exporter.Batch) error {
				i := len(b.Events) / 2
				return &exporter.RejectedError{Rejections: []exporter.Rejection{{Event: b.Events[i], Class: "refused", Reason: "named"}}}
			}}).Draw(t, "answer"))
		}
		if tried, later, err := d.resend(t.Context(), n); err != nil || len(tried)+len(later) > 0 {
			t.Fatalf("left %v and %v: %v", tried, later, err)
		}
		if !slices.Equal(d.took, d.told) || !slices.IsSorted(d.took) {
			t.Fatalf("the sink took %v, the command was told %v", d.took, d.told)
		}
		all := slices.Sorted(slices.Values(slices.Concat(d.told, d.dead, d.held)))
		if !slices.Equal(all, idsOfEvents(numbered(n))) {
			t.Fatalf("accepted %v, refused %v, held %v", d.told, d.dead, d.held)
		}
		if most := 12 * (len(d.poison) + 12); len(d.sizes) > most {
			t.Fatalf("%d requests for %d events, of which %d are refused; want at most %d", len(d.sizes), n, len(d.poison), most)
		}
	})
}
