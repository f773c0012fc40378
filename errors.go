package exporter

import (
	"errors"
	"fmt"
	"time"
)

// A sink's answer decides what happens to a batch:
//
//	nil              everything is durably accepted
//	*RejectedError   the named events will never be accepted; says nothing about the others
//	*RefusedError    nothing is accepted because of some event, which is not known
//	*PartialError    everything but Pending is accepted
//	*RetryAfterError unavailable, with the sink's own delay
//	*PauseError      a person is needed
//	any other error  unavailable: the same batch again, for ever
//
// Wrongly giving up on an event is worse than wrongly trying it again, so an
// error a sink knows nothing about is "unavailable".

// ErrFenced says that the consumer is not, or not surely, ours any more: another
// owner has taken it, the lease could not be renewed in time, or a newer write
// of this owner has gone through. Whoever gets it must stop at once.
var ErrFenced = errors.New("no longer the owner")

// RejectedError names the events of a batch that the sink will never accept.
type RejectedError struct {
	Rejections []Rejection
}

// Rejection is one event that cannot be delivered. Reason goes into the dead
// letter: class, status and at most the first 500 characters, no payload.
type Rejection struct {
	Event  Event
	Class  string // a fixed word: undecodable, too_large, refused…
	Reason string
}

func (e *RejectedError) Error() string {
	if len(e.Rejections) == 0 {
		return "rejected, naming no event"
	}
	r := e.Rejections[0]
	return fmt.Sprintf("%d events rejected, the first is %s/%d (event %d): %s: %s",
		len(e.Rejections), r.Event.RunID, r.Event.Seq, r.Event.ID, r.Class, r.Reason)
}

// RefusedError says that the sink has refused the request for what is in it,
// has accepted nothing of it, and does not know which event is at fault. An
// outcome that is unknown, such as a time-out, is not that.
type RefusedError struct {
	Err   error
	Class string // of the dead letter, when one event alone is refused
}

func (e *RefusedError) Error() string { return "refused: " + e.Err.Error() }

// Unwrap returns the sink's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// PartialError says that the sink has accepted the batch except Pending, which
// holds the rest in the batch's order.
type PartialError struct {
	Pending []Event
	Err     error
	After   time.Duration // the sink's own delay, 0 for none
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%d events pending: %v", len(e.Pending), e.Err)
}

// Unwrap returns the reason why the rest is pending.
func (e *PartialError) Unwrap() error { return e.Err }

// RetryAfterError says that the sink is unavailable and when to try again.
type RetryAfterError struct {
	Err        error
	After      time.Duration
	Overloaded bool // the sink wants fewer and larger requests
}

func (e *RetryAfterError) Error() string {
	return fmt.Sprintf("unavailable, try again after %v: %v", e.After, e.Err)
}

// Unwrap returns the sink's error.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Reasons for which a consumer pauses. They are label values and stored words.
const (
	PausedByPerson       = "operator"
	PausedSourceChanged  = "source_changed"
	PausedUnknownVersion = "unknown_envelope_version"
	PausedUnknownShape   = "unknown_table_shape"
	PausedSink           = "sink"
	PausedPossibleLoss   = "possible_loss" // events may be lost, and nothing behind them is to be delivered before a person has seen it
	PausedDeadLetters    = "dead_letters"  // more dead letters in an hour than allowed
	PausedHeldEvents     = "held_events"   // more events held behind dead letters than are kept
)

// PauseError says that only a person can help: the consumer pauses with the
// reason and nothing is skipped.
type PauseError struct {
	Reason string // one of the Paused constants
	Detail string // what was seen, and what to do
}

func (e *PauseError) Error() string { return e.Reason + ": " + e.Detail }

// ReleasedError is the answer of a cursor that was asked to record an event as
// held while nothing of its run is undecided any more. Nothing was recorded.
type ReleasedError struct {
	Runs []string
}

func (e *ReleasedError) Error() string {
	return fmt.Sprintf("%d runs are held no more", len(e.Runs))
}

// PanicError is a panic in a consumer, turned into an error so that the other
// consumers of the process go on.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
