package main

import (
	"context"
	"fmt"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	flatSchema = "bench_flat"
	flatEvents = 200_000 // exported at every size
	flatPiece  = 500_000 // loaded at a time

	mostGrowth = 0.10
)

// measureFlat exports the last rows of a table that grows, so that only its
// size differs, and compares the processor time of exporter and server.
func measureFlat(ctx context.Context, b *bed, r *report) error {
	var first float64
	rows := 0
	for i, size := range b.Flat {
		began := time.Now()
		o := docketsim.LoadOptions{Age: time.Hour, Seed: uint64(rows)}
		var err error
		if i == 0 {
			err = b.load(ctx, flatSchema, size, flatPiece, o)
		} else {
			err = b.grow(ctx, flatSchema, size-rows, flatPiece, o)
		}
		if err != nil {
			return err
		}
		b.say("%d events in the table, %d more after %s", size, size-rows, time.Since(began).Round(time.Second))
		rows = size
		cost, err := b.costOfLast(ctx, r, size)
		if err != nil {
			return err
		}
		if i == 0 {
			first = cost
			continue
		}
		growth := cost/first - 1
		r.judge(fmt.Sprintf("cost at %d rows against %d", size, b.Flat[0]), fmt.Sprintf("%+.1f %%", 100*growth),
			fmt.Sprintf("≤ +%.0f %%", 100*mostGrowth), growth <= mostGrowth)
	}
	return nil
}

// costOfLast is the median processor time, in seconds per million events.
func (b *bed) costOfLast(ctx context.Context, r *report, size int) (float64, error) {
	s := &series{name: fmt.Sprintf("last %d of %d rows", flatEvents, size), events: flatEvents, run: b.exportLast}
	var cost sample
	for turn := range b.Repeat {
		if err := s.take(ctx, b); err != nil {
			return 0, fmt.Errorf("%s: %w", s.name, err)
		}
		cost = append(cost, s.cpu[turn]+s.server[turn])
		b.say("turn %d: %s: %5.2f s CPU per million, server %5.2f", turn+1, s.name, s.cpu[turn], s.server[turn])
	}
	r.note(s.name, "%.2f s CPU per million median, of it the server %.2f", cost.median(), s.server.median())
	return cost.median(), nil
}

// exportLast exports the last rows to new files.
func (b *bed) exportLast(ctx context.Context) (usage, error) {
	var last int64
	if err := b.pool.QueryRow(ctx, "SELECT max(id) FROM "+flatSchema+".docket_events").Scan(&last); err != nil {
		return usage{}, fmt.Errorf("find the last row: %w", err)
	}
	return b.exportOnce(ctx, flatSchema, flatEvents, fmt.Sprintf("CONSUMER_BENCH_START=%d", last-flatEvents))
}
