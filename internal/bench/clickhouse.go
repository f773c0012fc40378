package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	clickhouseSchema = "bench_clickhouse"

	leastInsertShare = 0.8 // of the bare columnar insert's rate
)

// measureClickHouse puts the exporter beside a bare columnar insert of the same
// rows, in turns, on a new and on an old server. The bare rate is that of the
// inserts alone, the exporter's that of a whole process: its start, reading and
// decoding the rows and recording positions are in it.
func measureClickHouse(ctx context.Context, b *bed, r *report) error {
	o := docketsim.LoadOptions{Age: 24 * time.Hour}
	if err := b.load(ctx, clickhouseSchema, b.ClickHouse, b.ClickHouse, o); err != nil {
		return err
	}
	for _, open := range []func(context.Context) (*warehouse, error){openLibrary, openOldServer} {
		w, err := open(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(measureInserts(ctx, b, r, w), w.close()); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func measureInserts(ctx context.Context, b *bed, r *report, w *warehouse) error {
	bare := &series{name: "bare columnar insert", events: b.ClickHouse, run: func(ctx context.Context) (usage, error) {
		return b.insertBare(ctx, w)
	}}
	ours := &series{name: "exporter run --once", events: b.ClickHouse, run: func(ctx context.Context) (usage, error) {
		return b.exportTo(ctx, w)
	}}
	for turn := range b.Repeat {
		pair := []*series{bare, ours}
		if turn%2 == 1 { // what one leaves the server to do weighs on the other
			slices.Reverse(pair)
		}
		for _, s := range pair {
			if err := s.take(ctx, b); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			b.say("turn %d: %s, %-20s %8.0f rows/s  %5.2f s CPU per million", turn+1, w.name, s.name, s.rate[turn], s.cpu[turn])
		}
	}
	r.note(w.name+": "+bare.name, "%.0f rows/s best, %.0f median; %.2f s CPU per million median",
		slices.Max(bare.rate), bare.rate.median(), bare.cpu.median())
	r.note(w.name+": "+ours.name, "%.0f rows/s best, %.0f median; %.2f s CPU per million median; peak %s",
		slices.Max(ours.rate), ours.rate.median(), ours.cpu.median(), mebibytes(slices.Max(ours.rss)))
	best, median := slices.Max(ours.rate)/slices.Max(bare.rate), ours.rate.median()/bare.rate.median()
	r.judge(w.name+": exporter / bare insert", fmt.Sprintf("%.2f best, %.2f median", best, median),
		fmt.Sprintf("≥ %.1f", leastInsertShare), median >= leastInsertShare)
	return nil
}

// insertBare runs the bare insert in a process of its own. Time and processor
// time are those of the inserts, without reading the rows before.
func (b *bed) insertBare(ctx context.Context, w *warehouse) (usage, error) {
	const table = "bare"
	if err := w.create(ctx, table); err != nil {
		return usage{}, err
	}
	u, err := self(ctx, "columns", b.url(), clickhouseSchema, w.bare, table)
	if err != nil {
		return u, err
	}
	var wall, cpu int64
	if _, err := fmt.Sscan(u.Output, &wall, &cpu); err != nil {
		return u, fmt.Errorf("read the times of the bare insert in %q: %w", strings.TrimSpace(u.Output), err)
	}
	u.Wall, u.CPU = time.Duration(wall), time.Duration(cpu)
	return u, w.settle(ctx, table, b.ClickHouse)
}

// exportTo exports every event into a fresh table.
func (b *bed) exportTo(ctx context.Context, w *warehouse) (u usage, err error) {
	const table = "exported"
	if err := w.create(ctx, table); err != nil {
		return u, err
	}
	e, err := b.newExport(ctx, clickhouseSchema, "CONSUMER_BENCH_SINK=clickhouse", "CONSUMER_BENCH_CLICKHOUSE_DSN="+w.dsn,
		"CONSUMER_BENCH_CLICKHOUSE_TABLE="+table, "CONSUMER_BENCH_LINGER=0s")
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	if u, err = runProcess(ctx, e.env, b.Exporter, "run", "--once"); err != nil {
		return u, err
	}
	return u, w.settle(ctx, table, b.ClickHouse)
}
