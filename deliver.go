package exporter

import (
	"cmp"
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
		b, err = r.Source.Replay(r.ctx, r.at, in.To)
		return err
	})
	if err != nil {
		return err
	}
	b.Number = in.Number
	r.number = in.Number
	r.Log.Info("sending the interrupted batch again", "batch", in.Number, "from", r.at.String(), "to", in.To.String(), "events", len(b.Events))
	var lost *Loss
	if gone := in.Rows - b.Rows; gone > 0 {
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
	b.Consumer = r.Consumer
	letters := make([]DeadLetter, 0, len(b.Poison))
	for _, p := range b.Poison {
		letters = append(letters, DeadLetter{Rejection: p})
	}
	all := len(b.Events)
	intent := Intent{Number: b.Number, To: b.To, Events: all, Rows: b.Rows, Hash: b.Hash()}
	last := lastOf(b.Events)
	backoff := r.Backoff
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
		wait, err := r.answer(&b, &letters, err, &backoff)
		if err != nil {
			return err
		}
		if !sleep(r.ctx, r.stop, wait) {
			return r.stopped()
		}
	}
	letterCount := len(letters)
	if err := r.accept(Acceptance{
		Number: b.Number, To: b.To, Dead: r.deadAfter(b), Events: all - (letterCount - len(b.Poison)),
		Last: last, DeadLetters: letters, Lost: lost,
	}); err != nil {
		return err
	}
	r.Metrics.accepted(all-(letterCount-len(b.Poison)), time.Since(began))
	r.Metrics.settled(&b)
	for _, l := range letters {
		r.Metrics.deadLetter(l.Class)
		r.Log.Error("event put aside as a dead letter", "run_id", l.Event.RunID, "seq", l.Event.Seq, "event_id", l.Event.ID, "class", l.Class, "reason", l.Reason)
	}
	return nil
}

// answer acts on a sink's error: it takes out what is decided from b and says
// how long to wait before the rest is offered again. An error ends the run.
func (r *run) answer(b *Batch, letters *[]DeadLetter, err error, backoff *Backoff) (time.Duration, error) {
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
		if rest := without(b.Events, rejected.Rejections); len(rest) < len(b.Events) {
			b.Events = rest
			for _, x := range rejected.Rejections {
				*letters = append(*letters, DeadLetter{Rejection: x, Attempts: b.Attempt})
			}
			r.Metrics.retry("rejected")
			return 0, nil
		}
	case errors.As(err, &partial):
		b.Events, wait, reason = partial.Pending, partial.After, "partial"
		if len(b.Events) == 0 {
			return 0, nil
		}
	case errors.As(err, &later):
		wait = later.After
	}
	if r.Once && b.Attempt >= onceTries {
		return 0, fmt.Errorf("deliver batch %d, tried %d times: %w", b.Number, b.Attempt, err)
	}
	wait = max(wait, backoff.Next())
	r.Metrics.retry(reason)
	r.Log.Warn("the sink did not accept the batch; trying again", "batch", b.Number, "attempt", b.Attempt, "events", len(b.Events), "at", r.at.String(), "in", wait, "err", err)
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

// without returns the events that are not among the rejected ones.
func without(events []Event, rejected []Rejection) []Event {
	gone := make(map[Identity]bool, len(rejected))
	for i := range rejected {
		gone[rejected[i].Event.Identity()] = true
	}
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return gone[e.Identity()] })
}

// lastOf returns the identity of the event with the highest id.
func lastOf(events []Event) *Identity {
	if len(events) == 0 {
		return nil
	}
	last := slices.MaxFunc(events, func(a, b Event) int { return cmp.Compare(a.ID, b.ID) })
	identity := last.Identity()
	return &identity
}
