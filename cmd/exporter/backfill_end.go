package main

import (
	"errors"
	"sync"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

// errReachedEnd ends the last turn of a backfill: that it is finished is recorded.
var errReachedEnd = errors.New("the end is reached")

// ending makes a consumer end at a position. A nil ending never does.
type ending struct {
	until  exporter.Position
	source func(*docket.Until) exporter.Source // goes around the bounded source

	mu      sync.Mutex
	leave   func()
	reached bool
}

// wrap bounds a source.
func (e *ending) wrap(s *docket.Source) exporter.Source {
	if e == nil {
		return s
	}
	return e.source(docket.NewUntil(s, e.until))
}

// begin notes what makes the pipeline of a turn return.
func (e *ending) begin(leave func()) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave, e.reached = leave, false
}

// note makes the pipeline return once everything up to the end is delivered.
func (e *ending) note(p *exporter.Progress) {
	if e == nil || !p.At.Covers(e.until) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached = true
	e.leave()
}

func (e *ending) isReached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reached
}

// conclude records the end of a backfill after its pipeline has returned
// without an error, and so has written its position.
func (s *supervisor) conclude(own *cursor.Cursor) error {
	if s.end == nil || !s.end.isReached() {
		return nil
	}
	ctx, cancel := s.last()
	defer cancel()
	if err := own.Finish(ctx); err != nil {
		return err
	}
	s.log.Info("finished", "at", s.end.until.String())
	return errReachedEnd
}
