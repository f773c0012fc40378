package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// detachedInterval is how often a process looks for a backfill to work on.
const detachedInterval = 2 * time.Second

// backfills works on detached backfills of the configured consumers until ctx
// ends, one at a time and the oldest first. Other processes may have others.
func (e *engine) backfills(ctx context.Context) {
	var said remark
	for waitFor(ctx, detachedInterval) {
		err := e.workOnOldest(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if text := err.Error(); text != said.text || time.Since(said.at) > repeatAfter {
			said = remark{text, time.Now()}
			e.log.Warn("no backfill is worked on", "err", err)
		}
	}
}

// workOnOldest works on the oldest backfill that nobody works on and that can be
// worked on. One that cannot, such as one whose types its consumer does not export
// any more, holds up no other; it is told.
func (e *engine) workOnOldest(ctx context.Context) error {
	list, err := e.store.Unfinished(ctx)
	if err != nil {
		return err
	}
	var cannot []error
	for i := range list {
		b := &list[i]
		spec, err := specOf(b)
		if err != nil {
			return err
		}
		if !spec.Detached || b.State() != cursor.Unowned || consumerConfig(e.config, spec.Consumer) == nil {
			continue
		}
		x, err := newBackfiller(ctx, e.config, b, e.metrics, e.log)
		if err != nil {
			cannot = append(cannot, fmt.Errorf("%s: %w", b.Name, err))
			continue
		}
		return errors.Join(append(cannot, e.workOn(ctx, b, x))...)
	}
	return errors.Join(cannot...)
}

func (e *engine) workOn(ctx context.Context, b *cursor.BackfillStatus, x *backfiller) error {
	defer e.metrics.Forget(b.Name)
	defer x.close()
	x.pipes, x.out = e.pipes, e.out
	x.log.Info("working on a backfill", "until", b.Until.High)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go x.logThrottle(watching)
	return x.explainEnd(x.run(ctx))
}

// explainEnd says in words that somebody has ended the work on purpose, which is
// no error. Of a pause of our own it was said when it was made.
func (x *backfiller) explainEnd(err error) error {
	_, owned := errors.AsType[*cursor.OwnedError](err)
	_, own := errors.AsType[*exporter.PauseError](err)
	paused, isPaused := errors.AsType[*cursor.PausedError](err)
	switch {
	case owned, own, errors.Is(err, errStoppedEarly):
		return nil
	case errors.Is(err, errCancelled):
		x.log.Info("the backfill was cancelled; what it has sent stays")
		return nil
	case isPaused:
		x.log.Info("the backfill is paused", "by", paused.By, "reason", paused.Reason, "detail", paused.Detail)
		return nil
	}
	return err
}

// logThrottle says when reading begins and ends to wait for others.
func (x *backfiller) logThrottle(ctx context.Context) {
	before := ""
	for waitFor(ctx, lookInterval) {
		switch why := x.pressure.reason(); {
		case why != "" && before == "":
			x.log.Info("the backfill waits", "because", why)
			before = why
		case why == "" && before != "":
			x.log.Info("the backfill goes on")
			before = ""
		}
	}
}
