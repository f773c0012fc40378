package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docket-exporter/exporter"
)

// Sink writes one consumer's events.
type Sink struct {
	cfg      Config
	consumer string
	chunk    int // bytes of whole lines after which is written

	mu     sync.Mutex // Close may come while a Deliver still waits for the disk
	closed bool
	open   *segment  // nil: the next batch starts one
	broken *segment  // holds more than was accepted; mended before anything else
	newest time.Time // latest stamp known to exist
	fresh  bool      // lines of an unaccepted batch may be there: read back
	buf    []byte
}

var _ exporter.Sink = (*Sink)(nil)

const (
	chunkBytes = 256 << 10
	keepBuffer = 4 << 20 // a buffer that a huge event has grown is let go above this
)

// Open checks the directory and finishes what an earlier owner of the consumer
// has left open there, also under the names in Former and Ended. Only the
// consumer's owner may do that.
func Open(cfg Config, consumer string) (*Sink, error) {
	if !validConsumer(consumer) {
		return nil, fmt.Errorf("open file sink: consumer name %q must match [a-z][a-z0-9_]*", consumer)
	}
	if err := probe(cfg.Dir, ""); err != nil {
		return nil, fmt.Errorf("open file sink of consumer %s: %w", consumer, err)
	}
	s := &Sink{cfg: cfg.withDefaults(), consumer: consumer, chunk: chunkBytes}
	if err := errors.Join(s.adopt(), s.finishEnded()); err != nil {
		return nil, fmt.Errorf("open file sink of consumer %s: %w", consumer, err)
	}
	return s, nil
}

// Deliver returns nil once the batch's events are in a segment, fsynced. Every
// error means unavailable: nothing of the batch is accepted, and it can come
// again.
func (s *Sink) Deliver(ctx context.Context, batch exporter.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.deliver(ctx, batch.Events, batch.Resumed); err != nil {
		return fmt.Errorf("deliver batch %d to %s: %w", batch.Number, s.cfg.Dir, err)
	}
	return nil
}

func (s *Sink) deliver(ctx context.Context, events []exporter.Event, resumed bool) error {
	if s.closed {
		return errors.New("the sink is closed")
	}
	if err := exporter.Alive(ctx); err != nil || len(events) == 0 {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	var present map[key]bool
	if s.fresh && resumed { // a batch that nobody has begun is new, also one that a person wants again
		var err error
		if present, err = s.readBack(events); err != nil {
			return err
		}
	}
	if len(present) < len(events) {
		if err := s.append(ctx, events, present); err != nil {
			return err
		}
	}
	s.fresh = false
	return nil
}

// append writes the events that are not present as one group of lines.
func (s *Sink) append(ctx context.Context, events []exporter.Event, present map[key]bool) error {
	if s.open == nil {
		if err := s.create(events[0].ID); err != nil {
			return err
		}
	}
	written, err := s.write(ctx, events, present)
	if err != nil {
		return errors.Join(err, s.undo(ctx))
	}
	if err := s.open.file.Sync(); err != nil {
		// Which pages are on disk is unknown now: this file takes no other batch.
		err = errors.Join(fmt.Errorf("fsync segment: %w", err), s.undo(ctx))
		s.abandon()
		return err
	}
	s.open.size += written
	return nil
}

func (s *Sink) write(ctx context.Context, events []exporter.Event, present map[key]bool) (written int64, err error) {
	buf := s.buf[:0]
	defer func() {
		if s.buf = buf; cap(buf) > keepBuffer {
			s.buf = nil
		}
	}()
	for i := range events {
		if present == nil || !present[keyOf(&events[i])] {
			buf = append(events[i].AppendJSON(buf), '\n')
		}
		if len(buf) < s.chunk && i < len(events)-1 {
			continue
		}
		// An owner that slept past its lease must not write any more, least of all
		// to a file that the next one has finished meanwhile.
		if err := exporter.Alive(ctx); err != nil {
			return 0, err
		}
		if !s.open.isOurs() {
			return 0, errors.New("another owner has taken the open segment")
		}
		if _, err := s.open.file.Write(buf); err != nil {
			return 0, fmt.Errorf("write segment: %w", err)
		}
		written += int64(len(buf))
		buf = buf[:0]
	}
	return written, nil
}

// undo removes what a failed write has left. When our time is over, somebody
// else may already count on those lines: then they are left to the next owner.
func (s *Sink) undo(ctx context.Context) error {
	if exporter.Alive(ctx) != nil || !s.open.isOurs() {
		s.abandon()
		return nil
	}
	if err := s.open.file.Truncate(s.open.size); err != nil {
		s.abandon()
		return fmt.Errorf("cut segment: %w", err)
	}
	return nil
}

// abandon stops using the open segment; settle cuts it before the next write.
func (s *Sink) abandon() {
	if s.open == nil {
		return
	}
	_ = s.open.file.Close() // nothing in it counts on this descriptor any more
	s.broken, s.open = s.open, nil
}

// Close finishes the open segment, so that a stopped exporter leaves only
// finished files. Deliver fails afterwards.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.finishAll(); err != nil {
		return fmt.Errorf("close file sink of consumer %s: %w", s.consumer, err)
	}
	return nil
}
