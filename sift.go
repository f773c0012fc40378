package exporter

import "errors"

// defaultMaxAttempts is how many attempts at a batch are made before an event
// that the sink refuses while it accepts others becomes a dead letter.
const defaultMaxAttempts = 10

// ClassRefused is the dead-letter class of an event that the sink refused alone
// while it accepted others, where the sink names no class of its own.
const ClassRefused = "refused"

// outage is how many events the sink may refuse alone, one after the other,
// before a try that has seen it accept nothing is given up.
const outage = 8

// sift finds the events for which the sink refuses what is pending, of which it
// has just refused the whole. It offers halves, so that one such event among n
// costs at most log2(n)+1 further requests; a later event of a run is never
// offered before its earlier ones are accepted or set aside.
//
// Poison or outage? While the sink accepts other events of the batch, the ones
// it refuses alone become dead letters once the batch has had MaxAttempts. When
// it accepts nothing at all, something else is wrong: sift returns the refusal,
// and the batch waits. What was refused before that was over is asked once more.
func (d *delivery) sift(refused *RefusedError) error {
	outageOver := d.took || d.attempt == 2 // there was none before a first attempt
	var stubborn, held []Event
	suspects := d.pending
	for len(suspects) > 0 {
		found, later, err := d.isolate(suspects)
		if err != nil {
			return err
		}
		if found != nil {
			stubborn = append(stubborn, *found)
			later, held = apart(later, held, found.RunID)
		}
		if suspects = later; len(suspects) == 0 || !d.took && len(stubborn) == outage {
			break
		}
		err = d.offer(suspects)
		if err == nil {
			break
		}
		if !errors.As(err, &refused) {
			return err
		}
	}
	if len(stubborn) == 0 {
		return nil
	}
	if limit := orElse(d.MaxAttempts, defaultMaxAttempts); !outageOver || !d.took || d.attempt <= limit {
		return refused
	}
	aside := make([]Rejection, len(stubborn))
	for i, e := range stubborn {
		aside[i] = Rejection{Event: e, Class: orElse(refused.Class, ClassRefused), Reason: refused.Err.Error()}
	}
	d.putAside(aside, d.attempt-1)
	return nil
}

// isolate narrows suspects, refused as a whole, down to one event that is
// refused alone. later holds, in order, what was not offered since; it comes
// after the one found.
func (d *delivery) isolate(suspects []Event) (found *Event, later []Event, err error) {
	var refused *RefusedError
	asked := true // suspects were refused as they are, not only by what is left of a refusal
	for len(suspects) > 1 {
		half := (len(suspects) + 1) / 2
		err := d.offer(suspects[:half])
		switch {
		case err == nil:
			// Of two that were refused together, the other one is known.
			suspects, asked = suspects[half:], asked && len(suspects) == 2
		case errors.As(err, &refused):
			later = append(suspects[half:len(suspects):len(suspects)], later...)
			suspects, asked = suspects[:half], true
		default:
			return nil, nil, err
		}
	}
	if !asked {
		err := d.offer(suspects)
		if err == nil {
			return nil, later, nil
		}
		if !errors.As(err, &refused) {
			return nil, nil, err
		}
	}
	return &suspects[0], later, nil
}

// apart moves the events of a run from later to held.
func apart(later, held []Event, run string) (rest, all []Event) {
	for _, e := range later {
		if e.RunID == run {
			held = append(held, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest, held
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
