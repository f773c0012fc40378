package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docket-exporter/exporter/internal/reconcile"
)

// reconcileProgress shows how far a comparison is. One that is soon done prints
// nothing where there is no terminal.
type reconcileProgress struct {
	liveLine
	consumer string
	began    time.Time

	mu  sync.Mutex
	now reconcile.Progress
}

func newReconcileProgress(p *process, consumer string) *reconcileProgress {
	r := &reconcileProgress{liveLine: newLiveLine(p), consumer: consumer, began: time.Now()}
	r.said = r.began
	return r
}

// note takes a state, which show prints later.
func (r *reconcileProgress) note(now reconcile.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
}

func (r *reconcileProgress) show(context.Context) {
	r.mu.Lock()
	now := r.now
	r.mu.Unlock()
	done := 0.0
	if now.Of > 0 {
		done = float64(now.Done) / float64(now.Of)
	}
	line := fmt.Sprintf("%s  %s  %5.1f %%", r.consumer, now.Phase, 100*done)
	if r.terminal {
		line = drawn(done) + " " + line
	}
	r.print(fmt.Sprintf("%s  %s", line, time.Since(r.began).Round(time.Second)), false)
}
