package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/docket-exporter/exporter"
)

// outage is how many requests may fail one after the other before no further
// ones are made: a server that is gone is not asked once for every run.
const outage = 16

// mostKept bounds the memory of a request that is kept for another one, in bytes.
const mostKept = 256 << 10

// delivery is a batch on its way.
type delivery struct {
	sink   *Sink
	runs   []run
	failed atomic.Int64 // requests since one was accepted
	halted atomic.Bool  // make no further requests
}

// run is a batch's events of one run. Only one goroutine at a time has it.
type run struct {
	events   []exporter.Event
	accepted int   // of the first events
	err      error // why no more are
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

// publish publishes the runs beside each other and returns when no request is
// under way any more.
func (d *delivery) publish(ctx context.Context) {
	var requests errgroup.Group
	requests.SetLimit(d.sink.cfg.MaxRequests)
	for i := range d.runs {
		requests.Go(func() error {
			d.publishRun(ctx, &d.runs[i])
			return nil // how it ended is noted with the run
		})
	}
	_ = requests.Wait()
}

// publishRun publishes the run's events in order, up to the first request that
// fails.
func (d *delivery) publishRun(ctx context.Context, r *run) {
	s := d.sink
	for r.accepted < len(r.events) && !d.halted.Load() {
		count, bytes := cut(r.events[r.accepted:], s.room)
		if r.err = s.bytes.Acquire(ctx, int64(bytes)); r.err != nil {
			return
		}
		if !d.halted.Load() {
			r.err = s.request(ctx, r.events[r.accepted:r.accepted+count])
			d.note(r.err)
			if r.err == nil {
				r.accepted += count
			}
		}
		s.bytes.Release(int64(bytes))
		if r.err != nil {
			return
		}
	}
}

func (d *delivery) note(err error) {
	if err == nil {
		d.failed.Store(0)
		return
	}
	if d.failed.Add(1) >= outage || needsPerson(err) {
		d.halted.Store(true)
	}
}

// request makes one publish request, once. Nil means that every message has an
// id.
func (s *Sink) request(ctx context.Context, events []exporter.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	var server peer.Peer // of a request that has left
	memory, _ := s.memory.Get().(*[]byte)
	if memory == nil {
		memory = new([]byte)
	}
	publish := request(s.topic, events, memory)
	answer, err := s.client.TopicAdminClient.Publish(ctx, publish, gax.WithRetry(nil), gax.WithGRPCOptions(grpc.Peer(&server), grpc.ForceCodecV2(s.codec)))
	if cap(*memory) <= mostKept {
		s.memory.Put(memory)
	}
	if err == nil && !complete(answer.GetMessageIds(), len(events)) {
		err = errUncounted
	}
	if err != nil {
		err = &failure{err: err, sent: server.Addr != nil}
		return fmt.Errorf("publish %d messages of run %.100q, from seq %d: %w", len(events), events[0].RunID, events[0].Seq, err)
	}
	return nil
}

var errUncounted = errors.New("the answer does not have an id for each message")

func complete(ids []string, count int) bool {
	for _, id := range ids {
		if id == "" {
			return false
		}
	}
	return len(ids) == count
}
