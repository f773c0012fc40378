package cursor

import (
	"context"
	"errors"
	"fmt"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// Run calls work with a context that ends with the lease, and renews the lease
// beside it until work returns, also while ctx has ended and work is finishing.
//
// The context ends a margin before the lease does, counted on the monotonic
// clock from the moment the last successful renewal was sent, so that an owner
// cut off from the database has stopped before another can start. Its cause is
// then exporter.ErrFenced, together with a *PausedError when somebody paused
// the consumer, and Run returns that cause. Otherwise it returns what work
// returned. heartbeat is called for each renewal and must not block.
func (c *Cursor) Run(ctx context.Context, heartbeat func() Heartbeat, work func(ctx context.Context) error) error {
	working, end := context.WithCancelCause(exporter.WithEnd(ctx, c.stopAt))
	defer end(nil)
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.keep(renewing, heartbeat, end)
	}()
	err := work(working)
	lost := context.Cause(working)
	stop()
	<-done
	return reconcile(err, lost)
}

// reconcile prefers the loss of the lease to errors that only follow from it.
func reconcile(err, lost error) error {
	if !errors.Is(lost, exporter.ErrFenced) || errors.Is(err, exporter.ErrFenced) {
		return err
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return lost
	}
	return fmt.Errorf("%w: %w", lost, err)
}

// keep renews the lease every third of its TTL, and at least every 2 s, until
// ctx ends, and calls end when it is lost.
func (c *Cursor) keep(ctx context.Context, heartbeat func() Heartbeat, end context.CancelCauseFunc) {
	// A timer of its own: it fires also while a renewal hangs.
	expiry := time.AfterFunc(time.Until(c.stopAt()), func() {
		end(fmt.Errorf("%w: the lease of %s could not be renewed in time", exporter.ErrFenced, c.name))
	})
	defer expiry.Stop()
	next := c.renewAt()
	for pause(ctx, time.Until(next)) {
		attempt, cancel := context.WithTimeout(ctx, c.ttl/3)
		err := c.Renew(attempt, heartbeat())
		cancel()
		switch {
		case errors.Is(err, exporter.ErrFenced):
			end(err)
			return
		case err != nil:
			next = time.Now().Add(c.ttl / 10)
		case !expiry.Reset(time.Until(c.stopAt())):
			expiry.Stop() // it has fired: the lease was kept, but too late for work
			return
		default:
			next = c.renewAt()
		}
		if time.Now().After(c.stopAt()) {
			return
		}
	}
}

// extend notes that a renewal sent at t went through.
func (c *Cursor) extend(t time.Time) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if t.After(c.renewed) {
		c.renewed = t
	}
}

// freshness is how old what people see of a running consumer may be.
const freshness = 2 * time.Second

func (c *Cursor) renewAt() time.Time { return c.lastRenewed().Add(min(c.ttl/3, freshness)) }

// stopAt is when work must have been told to stop.
func (c *Cursor) stopAt() time.Time {
	return c.lastRenewed().Add(c.ttl - min(2*time.Second, c.ttl/5))
}

func (c *Cursor) lastRenewed() time.Time {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	return c.renewed
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
