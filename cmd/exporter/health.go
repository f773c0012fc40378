package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// health is what the consumers of this process last did.
type health struct {
	mu       sync.Mutex
	waiting  error // why the process is not prepared yet
	ready    bool
	progress map[string]step
}

type step struct {
	exporter.Progress
	at       time.Time
	caughtUp time.Time // when nothing was left, zero when it has never been so
}

func (h *health) note(consumer string, p exporter.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.progress == nil {
		h.progress = map[string]step{}
	}
	s := step{Progress: p, at: time.Now(), caughtUp: h.progress[consumer].caughtUp}
	if p.CaughtUp {
		s.caughtUp = s.at
	}
	h.progress[consumer] = s
}

func (h *health) of(consumer string) step {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.progress[consumer]
}

// forget ends the watch over a consumer that this process does not own.
func (h *health) forget(consumer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.progress, consumer)
}

// setPrepared notes why the process cannot start yet; nil when it can.
func (h *health) setPrepared(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting, h.ready = err, err == nil
}

func (h *health) prepared() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.waiting != nil:
		return h.waiting
	case !h.ready:
		return errors.New("starting")
	}
	return nil
}

// stuck names a consumer that has been in one step for longer than limit,
// other than delivering or waiting.
func (h *health) stuck(limit time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.progress {
		if s.Phase == exporter.Delivering || s.Phase == exporter.Waiting {
			continue
		}
		if d := time.Since(s.at); d > limit {
			return fmt.Errorf("consumer %s has been %s for %v", name, s.Phase, d.Round(time.Second))
		}
	}
	return nil
}

// remark is what /readyz says besides that the process is ready.
func (e *engine) remark() string {
	text := e.missing.remark()
	if e.store.NameIsShared() {
		text += "; another process is also called " + e.config.Exporter.Replica + ": give each an EXPORTER_REPLICA of its own"
	}
	return text
}
