package exporter

import (
	"context"
	"time"
)

// readAhead is a Source that reads the next batch while the present one is
// being delivered, as long as there is more to read. It is for backlogs: it
// lets the database and the sink work at the same time. What was read ahead
// from another position than the one then asked for is dropped.
type readAhead struct {
	Source
	from  Position
	batch chan polled // nil: nothing is being read ahead
}

// shortly is how long the record of a batch waits for the next one, so that
// both can be written at once.
const shortly = 25 * time.Millisecond

type polled struct {
	Batch
	err error
}

// Poll implements Source.
func (r *readAhead) Poll(ctx context.Context, from Position) (Batch, error) {
	p, ok := r.take(from)
	if !ok || p.err != nil {
		p.Batch, p.err = r.Source.Poll(ctx, from)
	}
	if p.err == nil && p.More && !p.Empty() && !p.Large() {
		r.start(ctx, p.To)
	}
	return p.Batch, p.err
}

// start reads the batch after from in the background.
func (r *readAhead) start(ctx context.Context, from Position) {
	result := make(chan polled, 1)
	r.from, r.batch = from, result
	go func() {
		var p polled
		defer func() {
			if v := recover(); v != nil { // it comes again, where it can be contained
				p.err = &PanicError{Value: v}
			}
			result <- p
		}()
		p.Batch, p.err = r.Source.Poll(ctx, from)
	}()
}

// take waits for what is being read ahead and returns it if it starts at from.
func (r *readAhead) take(from Position) (polled, bool) {
	if r.batch == nil {
		return polled{}, false
	}
	p := <-r.batch
	r.batch = nil
	return p, r.from.Equal(from)
}

// peek returns the batch after from when it has been read ahead, or shortly will be.
func (r *readAhead) peek(from Position) (Batch, bool) {
	if r.batch == nil || !r.from.Equal(from) {
		return Batch{}, false
	}
	wait := time.NewTimer(shortly)
	defer wait.Stop()
	select {
	case p := <-r.batch:
		r.batch <- p
		return p.Batch, p.err == nil
	case <-wait.C:
		return Batch{}, false
	}
}

// Replay implements Source.
func (r *readAhead) Replay(ctx context.Context, from, to Position) (Batch, error) {
	r.stop()
	return r.Source.Replay(ctx, from, to)
}

// Visible implements Source.
func (r *readAhead) Visible(ctx context.Context, ids Ranges) (Ranges, error) {
	r.stop()
	return r.Source.Visible(ctx, ids)
}

// stop waits for what is being read ahead and drops it.
func (r *readAhead) stop() { r.take(Position{}) }
