package main

import (
	"context"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	largeSchema  = "bench_large"
	largePayload = 1_000_000 // bytes
)

// measureLarge exports events with payloads of 1 MB, where the limit on a
// batch's bytes is what bounds memory.
func measureLarge(ctx context.Context, b *bed, r *report) error {
	if err := b.loadLarge(ctx); err != nil {
		return err
	}
	u, err := b.exportOnce(ctx, largeSchema, b.LargeEvents)
	if err != nil {
		return err
	}
	r.judge("peak RSS with 1 MB payloads", mebibytes(float64(u.RSS)), "≤ "+mebibytes(mostRSS), float64(u.RSS) <= mostRSS)
	r.note("rate with 1 MB payloads", "%.0f rows/s, %.1f ms CPU per row",
		perSecond(b.LargeEvents, u.Wall), 1000*u.CPU.Seconds()/float64(b.LargeEvents))
	return nil
}

func (b *bed) loadLarge(ctx context.Context) error {
	return b.load(ctx, largeSchema, b.LargeEvents, 100, docketsim.LoadOptions{Age: time.Hour, PayloadBytes: largePayload})
}
