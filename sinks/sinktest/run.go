package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docket-exporter/exporter"
)

// Harness is what a sink's test provides.
type Harness struct {
	// Open returns a new instance of the named consumer's sink, as after a
	// restart: an instance opened earlier may still exist and gets no more
	// batches. What one consumer writes must be readable apart from the others.
	Open func(t *testing.T, consumer string) exporter.Sink
	// Read returns what a reader of that consumer's destination sees now. Within
	// a run the order is the destination's.
	Read func(t *testing.T, consumer string) []Record
	// Break makes the destination unavailable until restore is called; nil when
	// that cannot be done.
	Break func(t *testing.T) (restore func())
	// Dedups says that a batch which comes again after a restart leaves no
	// second copy.
	Dedups bool
	// MaxPayload is the largest payload in bytes that the sink accepts, 0 for
	// more than a megabyte.
	MaxPayload int
}

// Prompt is how soon Deliver must return after its context has ended.
const Prompt = 10 * time.Second

// Run runs the suite. Every case has a consumer of its own.
func Run(t *testing.T, h Harness) {
	cases := []struct {
		name string
		run  func(c *suite)
	}{
		{"everything once and in order", (*suite).everythingOnce},
		{"the same batch after a restart", (*suite).sameBatchAgain},
		{"part of the batch was there", (*suite).grownBatchAgain},
		{"hostile texts and values", (*suite).hostile},
		{"empty batch", (*suite).empty},
		{"unavailable", (*suite).unavailable},
		{"cancelled before", (*suite).cancelledBefore},
		{"cancelled while delivering", (*suite).cancelledWhile},
		{"large batch", (*suite).large},
		{"large payloads", (*suite).bulky},
		{"the batch is the caller's", (*suite).leavesBatchAlone},
		{"consumers do not mix", (*suite).consumersApart},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(&suite{t, h, fmt.Sprintf("case_%d", i), uint64(i+1) * 100})
		})
	}
}

// suite is one case.
type suite struct {
	*testing.T
	Harness
	consumer string
	seed     uint64 // the case may use this and the next 99
}

func (c *suite) batch(n uint64, runs, eventsPerRun int) exporter.Batch {
	b := Batch(c.seed+n, runs, eventsPerRun)
	b.Consumer, b.Number = c.consumer, int64(n+1)
	return b
}

func (c *suite) open() exporter.Sink {
	c.Helper()
	return c.Open(c.T, c.consumer)
}

func (c *suite) accept(s exporter.Sink, b exporter.Batch) {
	c.Helper()
	if err := s.Deliver(c.Context(), b); err != nil {
		c.Fatalf("deliver batch %d: %v", b.Number, err)
	}
}

func (c *suite) expect(duplicates bool, batches ...exporter.Batch) {
	c.Helper()
	var events []exporter.Event
	for _, b := range batches {
		events = append(events, b.Events...)
	}
	expect(c.T, c.Read(c.T, c.consumer), events, duplicates)
}

// everythingOnce goes on with the same runs in every batch.
func (c *suite) everythingOnce() {
	s, all := c.open(), c.batch(0, 7, 30)
	var batches []exporter.Batch
	for n := range 3 {
		b := all
		b.Number = int64(n + 1)
		b.Events = slices.DeleteFunc(slices.Clone(all.Events), func(e exporter.Event) bool { return int(e.Seq-1)/10 != n })
		c.accept(s, b)
		batches = append(batches, b)
		c.expect(false, batches...)
	}
}

func (c *suite) sameBatchAgain() {
	first, b := c.batch(0, 3, 10), c.batch(1, 5, 20)
	s := c.open()
	c.accept(s, first)
	c.accept(s, b)
	for attempt := 2; attempt <= 3; attempt++ {
		b.Attempt, b.Resumed = attempt, true
		c.accept(c.open(), b)
		c.expect(!c.Dedups, first, b)
	}
}

// grownBatchAgain offers what was there together with what was not: a sink
// that recognises whole requests must not swallow the rest.
func (c *suite) grownBatchAgain() {
	b := c.batch(0, 4, 20)
	part := b
	part.Events = b.Events[:len(b.Events)-1]
	c.accept(c.open(), part)
	b.Attempt, b.Resumed = 2, true
	c.accept(c.open(), b)
	c.expect(true, b)
}

func (c *suite) hostile() {
	b := hostileBatch(c.seed)
	b.Consumer = c.consumer
	c.accept(c.open(), b)
	c.expect(false, b)
}

func (c *suite) empty() {
	s, b := c.open(), c.batch(1, 1, 3)
	c.accept(s, exporter.Batch{Consumer: c.consumer, UID: b.UID, Number: 1, Attempt: 1})
	c.expect(false)
	c.accept(s, b)
	c.expect(false, b)
}

func (c *suite) unavailable() {
	if c.Break == nil {
		return
	}
	s, before, b := c.open(), c.batch(0, 2, 5), c.batch(1, 5, 20)
	c.accept(s, before)
	restore := c.Break(c.T)
	for range 2 {
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		expectUnavailable(c.T, c.promptly(ctx, s, b))
		cancel()
	}
	restore()
	// A client may need a moment to see that its server is back.
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := s.Deliver(c.Context(), b)
		if err == nil {
			break
		}
		expectUnavailable(c.T, err)
		if time.Now().After(deadline) {
			c.Fatalf("still not accepted: %v", err)
		}
	}
	c.expect(!c.Dedups, before, b)
}

func (c *suite) cancelledBefore() {
	s, b := c.open(), c.batch(0, 5, 20)
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	expectUnavailable(c.T, c.promptly(ctx, s, b))
	c.expect(false)
	c.accept(s, b)
	c.expect(false, b)
}

// cancelledWhile allows either answer, but an acceptance must be true, and an
// error must leave the sink usable.
func (c *suite) cancelledWhile() {
	s, b := c.open(), c.batch(0, 50, 100)
	for _, after := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(c.Context(), after)
		err := c.promptly(ctx, s, b)
		cancel()
		if err == nil {
			break
		}
		expectUnavailable(c.T, err)
		b.Attempt++
	}
	c.accept(s, b)
	c.expect(true, b)
}

// promptly delivers and fails when the answer comes long after ctx has ended.
func (c *suite) promptly(ctx context.Context, s exporter.Sink, b exporter.Batch) error {
	c.Helper()
	answer := make(chan error, 1)
	go func() { answer <- s.Deliver(ctx, b) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(Prompt):
		c.Fatalf("Deliver still runs %v after its context has ended", Prompt)
		return nil
	}
}

func (c *suite) large() {
	b := c.batch(0, 100, 100)
	c.accept(c.open(), b)
	c.expect(false, b)
}

func (c *suite) bulky() {
	size := 1_100_000
	if c.MaxPayload > 0 {
		size = c.MaxPayload
	}
	b := bulkyBatch(c.seed, 6, size)
	b.Consumer = c.consumer
	c.accept(c.open(), b)
	c.expect(false, b)
}

func (c *suite) leavesBatchAlone() {
	s, b, want := c.open(), c.batch(0, 3, 20), c.batch(0, 3, 20)
	c.accept(s, b)
	if diff := cmp.Diff(want, b); diff != "" {
		c.Errorf("the batch was changed (-before +after):\n%s", diff)
	}
	for i := range b.Events { // the caller uses its memory again
		clear(b.Events[i].Payload)
		clear(b.Events[i].Metadata)
		b.Events[i] = exporter.Event{}
	}
	next := c.batch(1, 3, 20)
	c.accept(s, next)
	c.expect(false, want, next)
}

func (c *suite) consumersApart() {
	const consumers, batches = 3, 4
	var wg sync.WaitGroup
	errs := make([]error, consumers)
	want := make([][]exporter.Event, consumers)
	name := func(i int) string { return c.consumer + []string{"", "_b", "b"}[i] } // one begins like another
	for i := range consumers {
		s := c.Open(c.T, name(i))
		wg.Go(func() {
			for n := range batches {
				b := c.batch(uint64(i*batches+n), 3, 10)
				b.Consumer, b.Number = name(i), int64(n+1)
				want[i] = append(want[i], b.Events...)
				errs[i] = errors.Join(errs[i], s.Deliver(c.Context(), b))
			}
		})
	}
	wg.Wait()
	for i := range consumers {
		if errs[i] != nil {
			c.Errorf("consumer %s: %v", name(i), errs[i])
		}
		expect(c.T, c.Read(c.T, name(i)), want[i], false)
	}
}
