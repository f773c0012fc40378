package exporter

import (
	"fmt"
	"slices"
	"time"
)

// Classes of dead letters that no sink has asked for.
const (
	// ClassExpired is an event that was older than the consumer's MaxAge when it
	// was to be sent.
	ClassExpired = "expired"
	// ClassHeld is an event whose run is held. Its dead letter is in the state
	// held, not open: it waits for the one before it, not for a decision of its own.
	ClassHeld = "held"
)

// HeldRuns are the runs of which an event waits for a person, each with the
// earliest such event. A dead letter that has expired holds nothing: MaxAge asks
// for exactly that the later events go on without it.
type HeldRuns map[string]Identity

// Add notes that an event waits.
func (h HeldRuns) Add(id Identity) {
	if first, ok := h[id.RunID]; !ok || id.Compare(first) < 0 {
		h[id.RunID] = id
	}
}

// loadHeld reads which runs are held, where that matters.
func (r *run) loadHeld() error {
	if r.Held == nil {
		return nil
	}
	return r.insist(Recording, "hold", func() (err error) {
		if r.held, err = r.Held(r.ctx); r.held == nil {
			r.held = HeldRuns{}
		}
		return err
	})
}

// setPoisonAside makes dead letters of what no sink can be given, and of the
// events that wait for those and for earlier ones.
func (d *delivery) setPoisonAside() {
	for _, p := range d.batch.Poison {
		d.letters = append(d.letters, DeadLetter{Rejection: p})
		d.dead.Add(p.Event.Identity())
	}
	if d.Held != nil && len(d.held)+len(d.dead) > 0 {
		d.putAside(nil, d.attempt-1)
	}
}

// putAside makes dead letters of the named events, which are pending, and of
// the pending ones that have to wait for them.
func (d *delivery) putAside(named []Rejection, attempts int) {
	aside := make(map[Identity]Rejection, len(named))
	for _, x := range named {
		aside[x.Event.Identity()] = x
	}
	rest := make([]Event, 0, len(d.pending))
	for i := range d.pending { // in the order of each run
		e := &d.pending[i]
		x, ok := aside[e.Identity()]
		if !ok {
			if x, ok = d.waiting(e); !ok {
				rest = append(rest, *e)
				continue
			}
		}
		if x.Class != ClassExpired && x.Class != ClassHeld {
			d.dead.Add(e.Identity())
		}
		d.letters = append(d.letters, DeadLetter{Rejection: x, Attempts: attempts})
	}
	d.pending = rest
}

// waiting reports whether an event comes after a dead letter of its run that is
// undecided, or is that letter's event itself, read once more.
func (d *delivery) waiting(e *Event) (Rejection, bool) {
	if d.Held == nil {
		return Rejection{}, false
	}
	for _, runs := range []HeldRuns{d.dead, d.held} {
		if first, ok := runs[e.RunID]; ok && first.Compare(e.Identity()) <= 0 {
			return Rejection{Event: *e, Class: ClassHeld, Reason: fmt.Sprintf("waits for %d of its run, a dead letter", first.Seq)}, true
		}
	}
	return Rejection{}, false
}

// expire sets aside what is too old to be sent by now. All requests of one
// attempt to find a refused event share one judgement.
func (d *delivery) expire() {
	if d.MaxAge <= 0 {
		return
	}
	limit := time.Now().Add(-d.MaxAge)
	var expired []Rejection
	for i := range d.pending {
		if e := &d.pending[i]; e.OccurredAt.Before(limit) {
			expired = append(expired, Rejection{Event: *e, Class: ClassExpired, Reason: fmt.Sprintf("occurred more than %v before it could be sent", d.MaxAge)})
		}
	}
	if len(expired) > 0 {
		d.putAside(expired, d.attempt-1)
	}
}

// takeBack makes events that were to be held pending again, their runs having
// been released meanwhile.
func (d *delivery) takeBack(released *ReleasedError) error {
	d.Log.Info("runs are held no more; their events are delivered", "batch", d.batch.Number, "runs", len(released.Runs))
	if err := d.loadHeld(); err != nil {
		return err
	}
	d.letters = slices.DeleteFunc(d.letters, func(l DeadLetter) bool {
		if l.Class == ClassHeld {
			d.pending = append(d.pending, l.Event)
		}
		return l.Class == ClassHeld
	})
	slices.SortFunc(d.pending, func(x, y Event) int { return x.Identity().Compare(y.Identity()) })
	d.putAside(nil, d.attempt-1)
	return nil
}

// recordedNumber is the number under which the batch ends. One that was never
// begun, since nothing of it was to be sent, uses up none.
func (d *delivery) recordedNumber() int64 {
	if d.offered || d.begun != nil && d.begun.Number == d.batch.Number {
		return d.batch.Number
	}
	return d.number
}

// events is how many the sink has accepted.
func (d *delivery) events() int {
	return len(d.batch.Events) - (len(d.letters) - len(d.batch.Poison))
}

// setAside notes dead letters that are recorded. Of the many that an outage or
// a held run makes, the first of each batch is named.
func (r *run) setAside(letters []DeadLetter) {
	many := map[string]int{}
	for i := range letters {
		l := &letters[i]
		r.Metrics.deadLetter(l.Class)
		if r.held != nil && l.Class != ClassExpired {
			r.held.Add(l.Event.Identity())
		}
		if l.Class == ClassExpired || l.Class == ClassHeld {
			if many[l.Class]++; many[l.Class] > 1 {
				continue
			}
		}
		r.Log.Error("event put aside as a dead letter", "run_id", l.Event.RunID, "seq", l.Event.Seq, "event_id", l.Event.ID, "class", l.Class, "reason", l.Reason)
	}
	for class, n := range many {
		if n > 1 {
			r.Log.Error("events put aside as dead letters", "class", class, "events", n)
		}
	}
}
