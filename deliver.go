package exporter

import (
	"context"
	"crypto/sha256"
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
	if err := r.send(b, again{attempt: in.Attempt + 1, backoff: r.Backoff}, lost); err != nil {
		return err
	}
	return r.lost(lost)
}

// again is a batch of which the sink has taken nothing, as it stood when it was
// given back. It is read again together with what has been committed since: a
// sink that refuses just these events can then show that it takes others.
type again struct {
	attempt int // the next one
	failed  int
	backoff Backoff
}

var errReadAgain = errors.New("the batch is to be read again")

// deliver sends a batch that was just read.
func (r *run) deliver(b Batch) error {
	b.Number = r.number
	from := again{attempt: 1, backoff: r.Backoff}
	if r.again != nil {
		from = *r.again
	} else if len(b.Events) > 0 {
		b.Number++
	}
	return r.send(b, from, nil)
}

// send offers b to the sink until everything in it is accepted or set aside,
// then records it.
func (r *run) send(b Batch, from again, lost []Loss) error {
	began := time.Now()
	b.Consumer, b.UID, b.Shape = r.Consumer, r.uid, r.Shape
	d := &delivery{
		run: r, batch: b, pending: b.Events, again: from, dead: HeldRuns{}, whole: len(lost) == 0 && !b.More,
		intent: Intent{Number: b.Number, To: b.To, Events: len(b.Events), Rows: b.Rows + r.others, Hash: r.hash(&b)},
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

// hash is that of the intent, where the batch has begun already.
func (r *run) hash(b *Batch) [sha256.Size]byte {
	if r.begun != nil && r.begun.Number == b.Number && r.begun.To.Equal(b.To) {
		return r.begun.Hash
	}
	return b.Hash()
}

// delivery is a batch on its way.
type delivery struct {
	*run
	batch   Batch
	intent  Intent
	pending []Event // neither accepted nor a dead letter, in order
	letters []DeadLetter
	dead    HeldRuns // the runs of letters, where they hold their run
	again            // its failed are attempts in a row that decided nothing
	whole   bool     // nothing of it is lost, and it may be read again with more
	offered bool     // at least once
	took    bool     // the sink has accepted some of the batch
	ended   error    // why the run must end, whatever the sink says
}

// errNamed says that the sink has named events, and nothing about the others:
// they come again at once.
var errNamed = errors.New("some events were rejected")

// finish offers what is pending until nothing is.
func (d *delivery) finish() error {
	for d.expire(); len(d.pending) > 0; d.expire() {
		before := len(d.pending)
		err := d.offer(d.pending)
		refused := (*RefusedError)(nil)
		if errors.As(err, &refused) {
			err = d.sift(refused)
		}
		if d.ended != nil {
			return d.ended
		}
		if final(err) {
			return err
		}
		if len(d.pending) < before && !errors.Is(err, errNamed) {
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
		if refused != nil && d.whole && !d.took {
			d.run.again = &d.again
			return errReadAgain
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
