package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	clickhouseSchema = "bench_clickhouse"

	leastInsertShare = 0.8 // of the bare columnar insert's rate
)

// insertLimits are those of one bare insert: the exporter's defaults for
// ClickHouse, or as many rows as it is told to send.
func insertLimits() docket.Limits {
	l := docket.Limits{Events: 15_000, Bytes: 8 << 20}
	if n, err := strconv.Atoi(os.Getenv("CONSUMER_BENCH_BATCH_EVENTS")); err == nil {
		l = docket.Limits{Events: n, Bytes: math.MaxInt64}
	}
	return l
}

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
		if err := errors.Join(measureInserts(ctx, b, r, w), measureLargeInserts(ctx, b, r, w), w.close()); err != nil {
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
		return b.exportTo(ctx, w, clickhouseSchema, b.ClickHouse)
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
			b.say("turn %d: %s, %-20s %8.0f rows/s  %5.2f s CPU per million (PostgreSQL %5.2f, ClickHouse %5.2f)  peak %s", turn+1, w.name, s.name,
				s.rate[turn], s.cpu[turn], s.server[turn], s.sink[turn], mebibytes(s.rss[turn]))
		}
	}
	r.note(w.name+": "+bare.name, "%.0f rows/s best, %.0f median; %.2f s CPU per million median",
		slices.Max(bare.rate), bare.rate.median(), bare.cpu.median())
	r.note(w.name+": "+ours.name, "%.0f rows/s best, %.0f median; %.2f s CPU per million median",
		slices.Max(ours.rate), ours.rate.median(), ours.cpu.median())
	r.note(w.name+": CPU of all processes", "bare insert %.2f, exporter %.2f s per million median; of the latter exporter %.2f, PostgreSQL %.2f, ClickHouse %.2f",
		bare.cpu.median()+bare.sink.median(), ours.cpu.median()+ours.server.median()+ours.sink.median(),
		ours.cpu.median(), ours.server.median(), ours.sink.median())
	r.judge(w.name+": peak RSS", mebibytes(slices.Max(ours.rss)), "≤ "+mebibytes(mostRSS), slices.Max(ours.rss) <= mostRSS)
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
	u, err := w.during(func() (usage, error) {
		return self(ctx, "columns", b.url(), clickhouseSchema, w.bare, table)
	})
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

// measureLargeInserts is measureLarge for a ClickHouse.
func measureLargeInserts(ctx context.Context, b *bed, r *report, w *warehouse) error {
	if err := b.loadLarge(ctx); err != nil {
		return err
	}
	u, err := b.exportTo(ctx, w, largeSchema, b.LargeEvents)
	if err != nil {
		return err
	}
	r.judge(w.name+": peak RSS with 1 MB payloads", mebibytes(float64(u.RSS)), "≤ "+mebibytes(mostRSS), float64(u.RSS) <= mostRSS)
	r.note(w.name+": rate with 1 MB payloads", "%.0f rows/s, %.1f ms CPU per row",
		perSecond(b.LargeEvents, u.Wall), 1000*u.CPU.Seconds()/float64(b.LargeEvents))
	return nil
}

// exportTo exports every event of a schema into a fresh table.
func (b *bed) exportTo(ctx context.Context, w *warehouse, schema string, events int) (u usage, err error) {
	const table = "exported"
	if err := w.create(ctx, table); err != nil {
		return u, err
	}
	e, err := b.newExport(ctx, schema, "CONSUMER_BENCH_SINK=clickhouse", "CONSUMER_BENCH_CLICKHOUSE_DSN="+w.dsn,
		"CONSUMER_BENCH_CLICKHOUSE_TABLE="+table, "CONSUMER_BENCH_LINGER=0s")
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	u, err = w.during(func() (usage, error) { return runProcess(ctx, e.env, b.Exporter, "run", "--once") })
	if err != nil {
		return u, err
	}
	return u, w.settle(ctx, table, events)
}
