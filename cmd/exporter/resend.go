package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

const resendTries, longestPause = 5, 30 * time.Second // while the sink neither takes nor refuses

// resender offers a fixed list of events to a sink until each is accepted or
// refused. They go in their order, so no later event of a run is offered before
// its earlier ones are decided. While the sink refuses a request without naming
// an event, the next one is half as large; while it accepts, twice.
type resender struct {
	sink  exporter.Sink
	owner resending
	what  string        // the events' name in the log
	limit time.Duration // of one request
	log   *slog.Logger

	queue   []exporter.Event // undecided
	now     int              // how many of them the last request held
	most    int              // how many the next one may hold
	try     int
	backoff exporter.Backoff
}

// resending is the command whose events a resender offers. An error ends that.
type resending interface {
	// ready is asked before each request which of its events may still go.
	ready(events []exporter.Event) ([]exporter.Event, error)
	// request makes the batch; attempt counts from 1 for each new request.
	request(events []exporter.Event, attempt int) exporter.Batch
	// accepted is told after each request what the sink has taken of it.
	accepted(events []exporter.Event) error
	// refused is told what the sink never takes, and returns which later ones may go.
	refused(e exporter.Event, why string, later []exporter.Event) []exporter.Event
}

// send offers events. It gives up when the sink wants a person, stays away for
// all tries, or ctx ends. Then it says why, and which undecided events the last
// request held and which it did not.
func (r *resender) send(ctx context.Context, events []exporter.Event) (tried, later []exporter.Event, err error) {
	r.queue = events
	r.next(len(events))
	for len(r.queue) > 0 && err == nil {
		err = r.offer(ctx)
	}
	n := min(r.now, len(r.queue))
	return r.queue[:n], r.queue[n:], err
}

// next makes the next request a new one.
func (r *resender) next(most int) {
	r.most, r.try = most, 1
	r.backoff.Reset()
}

// offer makes one request and waits, if the answer wants that, before the next.
func (r *resender) offer(ctx context.Context) error {
	r.now = min(r.most, len(r.queue))
	ready, err := r.owner.ready(r.queue[:r.now])
	if err != nil {
		return err
	}
	r.queue = slices.Concat(ready, r.queue[r.now:])
	if r.now = len(ready); r.now == 0 {
		r.next(r.most)
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	return r.answer(ctx, r.sink.Deliver(limited, r.owner.request(ready, r.try)))
}

func (r *resender) answer(ctx context.Context, err error) error {
	if err == nil {
		return r.took(nil)
	}
	if _, ok := errors.AsType[*exporter.PauseError](err); ok || ctx.Err() != nil {
		return err
	}
	if partial, ok := errors.AsType[*exporter.PartialError](err); ok {
		if err := r.took(partial.Pending); err != nil || r.now == 0 {
			return err
		}
		return r.pause(ctx, partial.After, err)
	}
	if refused, ok := errors.AsType[*exporter.RefusedError](err); ok {
		if r.next(max(r.now/2, 1)); r.now == 1 {
			r.drop([]exporter.Rejection{{Event: r.queue[0], Class: exporter.ClassRefused, Reason: refused.Err.Error()}})
		}
		return nil
	}
	if rejected, ok := errors.AsType[*exporter.RejectedError](err); ok && r.drop(rejected.Rejections) {
		r.next(r.most)
		return nil
	}
	if later, ok := errors.AsType[*exporter.RetryAfterError](err); ok {
		return r.pause(ctx, later.After, err)
	}
	return r.pause(ctx, 0, err)
}

// took takes out what the sink has accepted: all of the request but pending.
func (r *resender) took(pending []exporter.Event) error {
	isOpen := func(e exporter.Event) bool {
		return slices.ContainsFunc(pending, func(p exporter.Event) bool { return p.Identity() == e.Identity() })
	}
	offered := r.queue[:r.now]
	rest := slices.DeleteFunc(slices.Clone(offered), func(e exporter.Event) bool { return !isOpen(e) })
	took := slices.DeleteFunc(slices.Clone(offered), isOpen)
	r.queue, r.now = slices.Concat(rest, r.queue[r.now:]), len(rest)
	if r.most = r.now; r.now == 0 {
		r.next(2 * len(offered))
	}
	return r.owner.accepted(took)
}

// drop takes out what the sink has named, and reports whether it did so.
func (r *resender) drop(named []exporter.Rejection) (dropped bool) {
	for _, x := range named {
		if i := slices.IndexFunc(r.queue, func(e exporter.Event) bool { return e.Identity() == x.Event.Identity() }); i >= 0 {
			r.queue = slices.Concat(r.queue[:i], r.owner.refused(r.queue[i], x.Class+": "+x.Reason, r.queue[i+1:]))
			dropped = true
		}
	}
	return dropped
}

// pause waits before the next try, if there is one.
func (r *resender) pause(ctx context.Context, wait time.Duration, err error) error {
	if r.try++; r.try > resendTries {
		return err
	}
	wait = min(max(wait, r.backoff.Next()), longestPause)
	r.log.Warn("the sink did not accept the "+r.what+"; trying again", "events", r.now, "in", wait, "err", err)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
