package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/docket-exporter/exporter"
)

// Replay writes single events of a consumer once more, beside the consumer's
// owner and without disturbing it: every batch becomes a file of its own,
//
//	<consumer>-replay-<UTC>-<first event id>.jsonl
//
// which is no segment's name, so that an owner neither repairs it nor compares a
// batch with it. The file appears by an atomic rename and belongs to its reader.
type Replay struct {
	sink *Sink
}

var _ exporter.Sink = (*Replay)(nil)

// OpenReplay checks the directory. Any number of processes may do that at once.
func OpenReplay(cfg Config, consumer string) (*Replay, error) {
	if !validConsumer(consumer) {
		return nil, fmt.Errorf("open file sink: consumer name %q must match [a-z][a-z0-9_]*", consumer)
	}
	if err := probe(cfg.Dir, ""); err != nil {
		return nil, fmt.Errorf("open file sink of consumer %s: %w", consumer, err)
	}
	return &Replay{&Sink{cfg: cfg.withDefaults(), consumer: consumer + "-replay", chunk: chunkBytes}}, nil
}

// Deliver returns nil once the batch is in a finished file. After any error
// nothing of the batch is accepted, and no finished file holds it.
func (r *Replay) Deliver(ctx context.Context, batch exporter.Batch) error {
	if len(batch.Events) == 0 {
		return ctx.Err()
	}
	if err := r.sink.Deliver(ctx, batch); err != nil {
		return errors.Join(err, r.drop())
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	if err := r.sink.open.finish(); err != nil {
		return errors.Join(fmt.Errorf("deliver to %s: %w", r.sink.cfg.Dir, err), r.dropOpen())
	}
	r.sink.open = nil
	return nil
}

// drop removes what a failed batch has left: nothing may be finished that was
// not accepted, since it comes again.
func (r *Replay) drop() error {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	return r.dropOpen()
}

func (r *Replay) dropOpen() error {
	seg := r.sink.open
	if seg == nil {
		seg = r.sink.broken
	}
	r.sink.open, r.sink.broken = nil, nil
	if seg == nil {
		return nil
	}
	_ = seg.file.Close()
	return handOver(seg.dir, seg.name, 0) // an empty one is removed
}

// Close ends the sink. Deliver fails afterwards.
func (r *Replay) Close() error {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	r.sink.closed = true
	return r.dropOpen()
}
