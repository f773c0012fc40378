package exporter

import (
	"context"
	"errors"
	"fmt"
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
	b.Number = in.Number
	r.number = in.Number
	r.Log.Info("sending the interrupted batch again", "batch", in.Number, "from", r.at.High, "to", in.To.High, "events", len(b.Events))
	var lost *Loss
	if gone := in.Rows - b.Rows; gone > 0 {
		r.others = gone
		ids := in.To.Minus(r.at)
		lost = &Loss{
			IDs: Range{ids[0].Lo, ids[len(ids)-1].Hi}, Count: int64(gone),
			Reason: fmt.Sprintf("delivery unknown: batch %d had begun with %d rows, %d of them were gone before it was recorded", in.Number, in.Rows, gone),
		}
		r.Log.Error("rows of the interrupted batch are gone: whether the sink has them is unknown", "batch", in.Number, "ids", lost.IDs, "rows", gone)
	}
	return r.send(b, in.Attempt+1, lost)
}

// deliver sends a fresh batch.
func (r *run) deliver(b Batch, attempt int) error {
	if len(b.Events) > 0 {
		b.Number = r.number + 1
	} else {
		b.Number = r.number
	}
	return r.send(b, attempt, nil)
}

// send offers b to the sink until everything in it is accepted or rejected,
// then records it.
func (r *run) send(b Batch, attempt int, lost *Loss) error {
	began := time.Now()
	b.Consumer, b.UID, b.Shape = r.Consumer, r.uid, r.Shape
	letters := make([]DeadLetter, 0, len(b.Poison))
	for _, p := range b.Poison {
		letters = append(letters, DeadLetter{Rejection: p})
	}
	offered := b.Events
	intent := Intent{Number: b.Number, To: b.To, Events: len(offered), Rows: b.Rows + r.others, Hash: b.Hash()}
	p := patience{backoff: r.Backoff}
	for ; len(b.Events) > 0; attempt++ {
		intent.Attempt, b.Attempt = attempt, attempt
		if err := r.insist(Recording, "begin", func() error { return r.Cursor.Begin(r.ctx, intent) }); err != nil {
			return err
		}
		r.number = b.Number
		r.step(Delivering, nil)
		err := r.Sink.Deliver(r.ctx, b)
		if err == nil {
			break
		}
		if r.ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrAbandoned, context.Cause(r.ctx))
		}
		wait, err := r.answer(&b, &letters, err, &p)
		if err != nil {
			return err
		}
		if len(b.Events) > 0 && !sleep(r.ctx, r.stop, wait) {
			return r.stopped()
		}
	}
	events := len(offered) - (len(letters) - len(b.Poison))
	if err := r.accept(recordDelivery, Acceptance{
		Number: b.Number, To: b.To, Dead: r.deadAfter(b), Events: events,
		Last: lastOf(offered, letters), DeadLetters: letters, Lost: lost,
	}); err != nil {
		return err
	}
	if len(offered) > 0 {
		r.Metrics.accepted(events, time.Since(began))
	}
	r.Metrics.settled(&b)
	for _, l := range letters {
		r.Metrics.deadLetter(l.Class)
		r.Log.Error("event put aside as a dead letter", "run_id", l.Event.RunID, "seq", l.Event.Seq, "event_id", l.Event.ID, "class", l.Class, "reason", l.Reason)
	}
	return nil
}

// patience is how a batch's failures are borne.
type patience struct {
	backoff Backoff
	failed  int // in a row, without an event having been decided
}

func (p *patience) reset() {
	p.failed = 0
	p.backoff.Reset()
}

// answer acts on a sink's error: it takes out what is decided from b and says
// how long to wait before the rest is offered again. An error ends the run.
func (r *run) answer(b *Batch, letters *[]DeadLetter, err error, p *patience) (time.Duration, error) {
	var rejected *RejectedError
	var partial *PartialError
	var later *RetryAfterError
	var pause *PauseError
	reason := "unavailable"
	wait := time.Duration(0)
	switch {
	case errors.As(err, &pause):
		return 0, pause
	case errors.As(err, &rejected):
		if rest, refused := divide(b.Events, rejected.Rejections); len(refused) > 0 {
			b.Events = rest
			for _, x := range refused {
				*letters = append(*letters, DeadLetter{Rejection: x, Attempts: b.Attempt})
			}
			p.reset()
			r.Metrics.retry("rejected")
			return 0, nil
		}
	case errors.As(err, &partial):
		if len(partial.Pending) < len(b.Events) {
			p.reset()
		}
		b.Events, wait, reason = partial.Pending, partial.After, "partial"
		if len(b.Events) == 0 {
			return 0, nil
		}
	case errors.As(err, &later):
		wait = later.After
	}
	if p.failed++; r.Once && p.failed >= onceTries {
		return 0, fmt.Errorf("deliver batch %d, tried %d times: %w", b.Number, p.failed, err)
	}
	wait = max(wait, p.backoff.Next())
	r.Metrics.retry(reason)
	r.Log.Warn("the sink did not accept the batch; trying again", "batch", b.Number, "attempt", b.Attempt, "events", len(b.Events), "at", r.at.High, "in", wait, "err", err)
	r.step(Waiting, err)
	return wait, nil
}

// stopped is the answer to a wait that did not pass.
func (r *run) stopped() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return errStopped
}

// divide parts events into those that were refused, each once and as it was
// offered, and the rest. A rejection of another event is none.
func divide(events []Event, rejections []Rejection) (rest []Event, refused []Rejection) {
	named := make(map[Identity]Rejection, len(rejections))
	for _, x := range rejections {
		named[x.Event.Identity()] = x
	}
	for i := range events {
		x, ok := named[events[i].Identity()]
		if !ok {
			rest = append(rest, events[i])
			continue
		}
		x.Event = events[i]
		refused = append(refused, x)
	}
	return rest, refused
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
