package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// mostWait is the longest wait between tries of a database.
	mostWait = 3 * time.Second
	// onceTries is how many failures in a row end a run with Once.
	onceTries = 5
)

// recordDelivery is the one thing that a stop does not keep from being tried again.
const recordDelivery = "record"

// insist calls f until it succeeds, the run ends, or f says that trying again
// cannot help.
func (r *run) insist(phase Phase, what string, f func() error) error {
	backoff := r.Backoff
	backoff.Max = min(orDefault(backoff.Max, mostWait), mostWait)
	for tries := 1; ; tries++ {
		r.step(phase, nil)
		err := f()
		if err == nil && tries > 1 {
			r.Log.Info("works again", "doing", what, "tries", tries)
		}
		if err == nil || final(err) {
			return err
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		r.Metrics.retry(what)
		if r.Once && tries == onceTries {
			return fmt.Errorf("%s, tried %d times: %w", what, tries, err)
		}
		wait := backoff.Next()
		r.Log.Warn("trying again", "doing", what, "at", r.at.High, "in", wait, "err", err)
		r.step(Waiting, err)
		stop := r.stop
		if what == recordDelivery { // what the sink has accepted is worth recording until ctx ends
			stop = nil
		}
		if !sleep(r.ctx, stop, wait) {
			return r.stopped()
		}
	}
}

// final reports whether trying again is pointless.
func final(err error) bool {
	var pause *PauseError
	var released *ReleasedError
	return errors.Is(err, ErrFenced) || errors.As(err, &pause) || errors.As(err, &released)
}
