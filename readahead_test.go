package exporter_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
)

// backlog fills a world with rows for so many pages.
func (w *world) backlog(pages int) {
	for i := range pages * w.limit {
		w.insert(event("a", int64(i+1)))
	}
}

// reads is a source that takes a second a call, and counts the calls it is in.
type reads struct {
	*world
	now, most atomic.Int32
}

func (r *reads) Poll(ctx context.Context, from exporter.Position) (exporter.Batch, error) {
	defer r.enter()()
	return r.world.Poll(ctx, from)
}

func (r *reads) Visible(ctx context.Context, ids exporter.Ranges) (exporter.Ranges, error) {
	defer r.enter()()
	return r.world.Visible(ctx, ids)
}

func (r *reads) enter() (leave func()) {
	r.most.Store(max(r.most.Load(), r.now.Add(1)))
	time.Sleep(time.Second)
	return func() { r.now.Add(-1) }
}

// In a backlog the source and the sink work at the same time.
func TestBacklogIsReadAhead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.backlog(10)
		o, state := w.claim()
		p := w.pipeline(o)
		p.Once, p.Source = true, &reads{world: w}
		p.Sink = sinkFunc(func(ctx context.Context, b exporter.Batch) error {
			time.Sleep(time.Second)
			return w.Deliver(ctx, b)
		})
		began := time.Now()
		if err := run(t.Context(), p, nil, state); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if took := time.Since(began); took > 13*time.Second {
			t.Errorf("ten batches, a second each to read and to deliver, took %v", took)
		}
	})
}

// A source is not safe for concurrent use, and nothing of it is left running.
func TestSourceIsReadOneCallAtATime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.rollback(w.begin(event("z", 1)))
		w.backlog(5)
		o, state := w.claim()
		p := w.pipeline(o)
		source := &reads{world: w}
		p.Source = source
		stop := make(chan struct{})
		time.AfterFunc(3500*time.Millisecond, func() { close(stop) }) // in the middle of a read
		if err := run(t.Context(), p, stop, state); err != nil {
			t.Fatal(err)
		}
		if source.now.Load() != 0 || source.most.Load() != 1 {
			t.Errorf("%d reads are left, %d were at the same time", source.now.Load(), source.most.Load())
		}
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
	})
}

// What was read ahead is not used after a failure of that read.
func TestFailedReadAheadIsReadAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.backlog(4)
		w.at = func(point string) error {
			if point == "polled" && w.count("polled") == 2 {
				panic(crash{})
			}
			if point == "polled" && w.count("polled") == 4 {
				return errDown
			}
			return nil
		}
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.again() != 0 {
			t.Errorf("%d taken again", w.again())
		}
	})
}
