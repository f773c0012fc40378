package webhook

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter"
)

// outage is how many requests may fail one after the other before no further
// ones are made: a receiver that is gone is not asked once for every run.
const outage = 16

// delivery is a batch on its way.
type delivery struct {
	sink    *Sink
	attempt int
	runs    []run
	failed  atomic.Int64 // requests since the receiver answered one by itself
	halted  atomic.Bool  // make no further requests
}

// run is a batch's events of one run. Only one goroutine at a time has it.
type run struct {
	events   []exporter.Event
	accepted int      // of the first events
	stopped  *refusal // why no more are; nil when all are, or nothing was asked
}

// byRun cuts a sorted batch into its runs.
func byRun(events []exporter.Event) []run {
	pieces := exporter.ByRun(events)
	runs := make([]run, len(pieces))
	for i, piece := range pieces {
		runs[i].events = piece
	}
	return runs
}

// send sends the runs beside each other and returns when no request is under
// way any more.
func (d *delivery) send(ctx context.Context) {
	var requests errgroup.Group
	requests.SetLimit(d.sink.cfg.Concurrency)
	for i := range d.runs {
		requests.Go(func() error {
			d.sendRun(ctx, &d.runs[i])
			return nil // how it ended is noted with the run
		})
	}
	_ = requests.Wait()
}

// sendRun sends the run's events in order, up to the first one that is not
// accepted.
func (d *delivery) sendRun(ctx context.Context, r *run) {
	for r.accepted < len(r.events) && ctx.Err() == nil && !d.halted.Load() {
		r.stopped = d.sink.post(ctx, &r.events[r.accepted], d.attempt)
		d.note(r.stopped)
		if r.stopped != nil {
			return
		}
		r.accepted++
	}
}

func (d *delivery) note(r *refusal) {
	switch {
	case r == nil, r.kind == rejected:
		d.failed.Store(0)
	case r.kind == person, r.holdOff, d.failed.Add(1) >= outage:
		d.halted.Store(true)
	}
}
