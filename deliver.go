package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// replay ends a batch that a crash interrupted: the rows between the two
// positions are read again, without limits, and sent again.
func (r *run) replay(in Intent) error {
	var b Batch
	err := r.insist(Reading, "read", func() (err error) {
		b, err = r.source.Replay(r.ctx, r.at, in.To)
		return err
	})
	if err != nil {
		return err
	}
	b.Number, b.Resumed = in.Number, true
	r.number = in.Number
	r.Log.Info("sending the interrupted batch again", "batch", in.Number, "from", r.at.High, "to", in.To.High, "events", len(b.Events))
	var lost []Loss
	if gone := in.Rows - b.Rows; gone > 0 {
		r.others = gone
		ids := in.To.Minus(r.at)
		lost = []Loss{{
			Kind: LossDeliveryUnknown, IDs: Range{ids[0].Lo, ids[len(ids)-1].Hi}, Count: int64(gone),
			Reason: fmt.Sprintf("delivery unknown: batch %d had begun with %d rows, %d of them were gone before it was recorded", in.Number, in.Rows, gone),
		}}
		r.Log.Error("rows of the interrupted batch are gone: whether the sink has them is unknown", "batch", in.Number, "ids", ids, "rows", gone)
	}
	if err := r.send(b, in.Attempt+1, lost); err != nil {
		return err
	}
	return r.lost(lost)
}

// deliver sends a fresh batch.
func (r *run) deliver(b Batch) error {
	if len(b.Events) > 0 {
		b.Number = r.number + 1
	} else {
		b.Number = r.number
	}
	return r.send(b, 1, nil)
}

// send offers b to the sink until everything in it is accepted or set aside,
// then records it.
func (r *run) send(b Batch, attempt int, lost []Loss) error {
	began := time.Now()
	b.Consumer, b.UID, b.Shape = r.Consumer, r.uid, r.Shape
	d := &delivery{
		run: r, batch: b, pending: b.Events, attempt: attempt, backoff: r.Backoff, dead: HeldRuns{},
		intent: Intent{Number: b.Number, To: b.To, Events: len(b.Events), Rows: b.Rows + r.others, Hash: b.Hash()},
	}
	d.setPoisonAside()
	var next *Intent
	for {
		if err := d.finish(); err != nil {
			return err
		}
		r.number = d.recordedNumber()
		next = r.next(b.To)
		err := r.accept(recordDelivery, Acceptance{
			Number: r.number, To: b.To, Dead: r.deadAfter(b), Events: d.events(),
			Last: lastOf(b.Events, d.letters), DeadLetters: d.letters, Mark: orElse(b.Mark, r.mark), Next: next, Lost: lost,
		})
		if released := (*ReleasedError)(nil); errors.As(err, &released) {
			if err := d.takeBack(released); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	r.begun = next
	r.readUpTo(&b)
	if d.offered {
		r.Metrics.accepted(d.events(), time.Since(began))
	}
	r.Metrics.settled(&b)
	r.setAside(d.letters)
	return nil
}

// next returns the intent of the batch after to where it has been read already.
// It begins in the write that ends the present one.
func (r *run) next(to Position) *Intent {
	if r.isStopped() {
		return nil
	}
	b, ok := r.source.peek(to)
	if !ok || len(b.Events) == 0 || len(b.Losses) > 0 || r.Linger > 0 && !b.More {
		return nil
	}
	return &Intent{Number: r.number + 1, Attempt: 1, To: b.To, Events: len(b.Events), Rows: b.Rows, Hash: b.Hash()}
}

// delivery is a batch on its way.
type delivery struct {
	*run
	batch   Batch
	intent  Intent
	pending []Event // neither accepted nor a dead letter, in order
	letters []DeadLetter
	dead    HeldRuns // the runs of letters, where they hold their run
	attempt int      // the next one
	offered bool     // at least once
	took    bool     // the sink has accepted some of the batch
	backoff Backoff
	failed  int   // attempts in a row that decided nothing
	ended   error // why the run must end, whatever the sink says
}

// errNamed says that the sink has named events, and nothing about the others:
// they come again at once.
var errNamed = errors.New("some events were rejected")

// finish offers what is pending until nothing is.
func (d *delivery) finish() error {
	for d.expire(); len(d.pending) > 0; d.expire() {
		before := len(d.pending)
		err := d.offer(d.pending)
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			err = d.sift(refused)
		}
		if d.ended != nil {
			return d.ended
		}
		if final(err) {
			return err
		}
		if len(d.pending) < before {
			if d.failed > 0 {
				d.Log.Info("the sink accepts again", "batch", d.batch.Number, "attempt", d.attempt-1)
			}
			d.failed = 0
			d.backoff.Reset()
		}
		if err == nil || errors.Is(err, errNamed) || len(d.pending) == 0 {
			continue
		}
		if err := d.wait(err); err != nil {
			return err
		}
	}
	return nil
}

// offer makes one attempt at events, which are pending, and takes what is
// decided out of pending. Nil means that all of them are.
func (d *delivery) offer(events []Event) error {
	d.intent.Attempt = d.attempt
	if d.begun != nil && d.begun.Number == d.intent.Number {
		d.begun = nil // by the record of the batch before
	} else if d.ended = d.insist(Recording, "begin", func() error { return d.Cursor.Begin(d.ctx, d.intent) }); d.ended != nil {
		return d.ended
	}
	b := d.batch
	b.Events, b.Attempt = events, d.attempt
	d.number = b.Number
	d.attempt++
	d.offered = true
	d.step(Delivering, nil)
	err := d.Sink.Deliver(d.ctx, b)
	var rejected *RejectedError
	var partial *PartialError
	switch {
	case err == nil:
		d.accepted(events, nil)
		return nil
	case d.ctx.Err() != nil:
		d.ended = fmt.Errorf("%w: %w", ErrAbandoned, context.Cause(d.ctx))
		return d.ended
	case errors.As(err, &rejected):
		if named := divide(events, rejected.Rejections); len(named) > 0 {
			d.putAside(named, b.Attempt)
			d.Metrics.retry("rejected")
			return errNamed
		}
	case errors.As(err, &partial):
		d.accepted(events, partial.Pending)
		if len(partial.Pending) == 0 {
			return nil
		}
	}
	return err
}

// accepted takes the events that are not in rest out of pending.
func (d *delivery) accepted(events, rest []Event) {
	d.took = d.took || len(rest) < len(events)
	if len(events) == len(d.pending) {
		d.pending = rest
		return
	}
	open := identities(rest)
	done := map[Identity]bool{}
	for i := range events {
		if id := events[i].Identity(); !open[id] {
			done[id] = true
		}
	}
	d.pending = slices.DeleteFunc(slices.Clone(d.pending), func(e Event) bool { return done[e.Identity()] })
}

// wait lets time pass before the next attempt. An error ends the run.
func (d *delivery) wait(err error) error {
	var partial *PartialError
	var later *RetryAfterError
	reason, wait := "unavailable", time.Duration(0)
	switch {
	case errors.As(err, &partial):
		reason, wait = "partial", partial.After
	case errors.As(err, &later):
		wait = later.After
		if later.Overloaded {
			reason, wait = "overloaded", max(wait, d.slowDown())
		}
	}
	if d.failed++; d.Once && d.failed >= onceTries {
		return fmt.Errorf("deliver batch %d, tried %d times: %w", d.batch.Number, d.failed, err)
	}
	wait = max(wait, d.backoff.Next())
	d.Metrics.retry(reason)
	d.Log.Warn("the sink did not accept the batch; trying again", "batch", d.batch.Number, "attempt", d.attempt-1, "events", len(d.pending), "at", d.at.High, "in", wait, "err", err)
	d.step(Waiting, err)
	if !sleep(d.ctx, d.stop, wait) {
		return d.stopped()
	}
	return nil
}

func identities(events []Event) map[Identity]bool {
	set := make(map[Identity]bool, len(events))
	for i := range events {
		set[events[i].Identity()] = true
	}
	return set
}

// stopped is the answer to a wait that did not pass.
func (r *run) stopped() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return errStopped
}

// divide returns those of events that were refused, each once and as it was
// offered. A rejection of another event is none.
func divide(events []Event, rejections []Rejection) (refused []Rejection) {
	named := make(map[Identity]Rejection, len(rejections))
	for _, x := range rejections {
		named[x.Event.Identity()] = x
	}
	for i := range events {
		if x, ok := named[events[i].Identity()]; ok {
			x.Event = events[i]
			refused = append(refused, x)
		}
	}
	return refused
}

// lastOf returns the identity of the event with the highest id that is not
// among the letters.
func lastOf(events []Event, letters []DeadLetter) *Identity {
	aside := make(map[Identity]bool, len(letters))
	for i := range letters {
		aside[letters[i].Event.Identity()] = true
	}
	last := -1
	for i := range events {
		if (last < 0 || events[i].ID > events[last].ID) && !aside[events[i].Identity()] {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	identity := events[last].Identity()
	return &identity
}
