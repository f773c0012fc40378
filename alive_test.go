package exporter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// The clock ends what a timer has not ended yet, through any context made of it.
func TestAlive(t *testing.T) {
	end := time.Now().Add(time.Hour)
	ctx, cancel := context.WithCancel(exporter.WithEnd(t.Context(), func() time.Time { return end }))
	if err := exporter.Alive(ctx); err != nil {
		t.Error(err)
	}
	end = time.Now().Add(-time.Millisecond)
	if err := exporter.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("after the end: %v, %v", err, ctx.Err())
	}
	cancel()
	if err := exporter.Alive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the cancel: %v", err)
	}
	if err := exporter.Alive(t.Context()); err != nil {
		t.Errorf("without an end: %v", err)
	}
}
