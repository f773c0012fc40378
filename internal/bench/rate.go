package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	rateSchema = "bench_docket"

	leastShare = 0.6                // of the bare loop's rate
	mostCPU    = 6.0                // seconds per million events
	mostRSS    = float64(128 << 20) // bytes
)

// series is one loop's turns.
type series struct {
	name              string
	events            int // of one turn
	run               func(context.Context) (usage, error)
	rate, cpu, server sample
	sink, rss         sample
}

// measureRate runs the bare loops and the exporter in turns over the same rows.
// Rates are over whole processes, start and connection included, for all alike.
func measureRate(ctx context.Context, b *bed, r *report) error {
	if err := b.loadRate(ctx); err != nil {
		return err
	}
	naive := filepath.Join(b.dir, "naive.jsonl")
	defer func() { _ = os.Remove(naive) }() // the directory goes anyway
	ours := &series{name: "exporter run --once", events: b.Events, run: func(ctx context.Context) (usage, error) {
		return b.exportOnce(ctx, rateSchema, b.Events)
	}}
	bare := &series{name: "bare loop with join", events: b.Events, run: b.loop("scan-join", rateSchema)}
	plain := &series{name: "bare loop without join", events: b.Events, run: b.loop("scan", rateSchema)}
	all := []*series{bare, ours, plain, {name: "plain loop with encoding/json", events: b.Events, run: b.loop("scan-json", rateSchema, naive)}}
	for turn := range b.Repeat {
		for _, s := range all {
			if err := s.take(ctx, b); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			b.say("turn %d: %-30s %8.0f rows/s  %5.2f s CPU per million (server %5.2f)  peak %s", turn+1, s.name,
				s.rate[turn], s.cpu[turn], s.server[turn], mebibytes(s.rss[turn]))
		}
	}
	for _, s := range all {
		r.note(s.name, "%.0f rows/s best, %.0f median; %.2f s CPU per million median; peak %s",
			slices.Max(s.rate), s.rate.median(), s.cpu.median(), mebibytes(slices.Max(s.rss)))
	}
	best, median := slices.Max(ours.rate)/slices.Max(bare.rate), ours.rate.median()/bare.rate.median()
	r.judge("rate to files / bare loop", fmt.Sprintf("%.2f best, %.2f median", best, median),
		fmt.Sprintf("≥ %.1f", leastShare), median >= leastShare)
	r.note("rate to files / bare loop without join", "%.2f best, %.2f median",
		slices.Max(ours.rate)/slices.Max(plain.rate), ours.rate.median()/plain.rate.median())
	r.judge("CPU per million events", fmt.Sprintf("%.2f s best, %.2f s median", slices.Min(ours.cpu), ours.cpu.median()),
		fmt.Sprintf("≤ %.0f s", mostCPU), ours.cpu.median() <= mostCPU)
	r.judge("peak RSS", mebibytes(slices.Max(ours.rss)), "≤ "+mebibytes(mostRSS), slices.Max(ours.rss) <= mostRSS)
	return nil
}

func (b *bed) loadRate(ctx context.Context) error {
	return b.load(ctx, rateSchema, b.Events, b.Events, docketsim.LoadOptions{Age: 24 * time.Hour})
}

// take runs one turn.
func (s *series) take(ctx context.Context, b *bed) error {
	before, err := b.serverCPU()
	if err != nil {
		return err
	}
	u, err := s.run(ctx)
	if err != nil {
		return err
	}
	after, err := b.serverCPU()
	if err != nil {
		return err
	}
	s.rate = append(s.rate, perSecond(s.events, u.Wall))
	s.cpu = append(s.cpu, perMillion(s.events, u.CPU))
	s.server = append(s.server, perMillion(s.events, after-before))
	s.sink = append(s.sink, perMillion(s.events, u.Sink))
	s.rss = append(s.rss, float64(u.RSS))
	return nil
}

// loop runs one of our own loops in a process of its own.
func (b *bed) loop(kind, schema string, rest ...string) func(context.Context) (usage, error) {
	return func(ctx context.Context) (usage, error) {
		u, err := self(ctx, append([]string{kind, b.url(), schema}, rest...)...)
		if err != nil {
			return u, err
		}
		if n, err := strconv.Atoi(strings.TrimSpace(u.Output)); err != nil || n != b.Events {
			return u, fmt.Errorf("loop %s read %q rows of %d", kind, strings.TrimSpace(u.Output), b.Events)
		}
		return u, nil
	}
}

// exportOnce exports a schema to new files and verifies that they hold a line
// for every event. More variables may be given.
func (b *bed) exportOnce(ctx context.Context, schema string, events int, more ...string) (u usage, err error) {
	e, err := b.newExport(ctx, schema)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	if u, err = runProcess(ctx, append(e.env, more...), b.Exporter, "run", "--once"); err != nil {
		return u, err
	}
	lines, err := countLines(e.dir)
	if err != nil {
		return u, err
	}
	if lines != events {
		return u, fmt.Errorf("the files hold %d lines for %d events", lines, events)
	}
	return u, nil
}

// countLines counts the lines of a consumer's files.
func countLines(dir string) (n int, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, consumer+"-*"))
	if err != nil {
		return 0, fmt.Errorf("list files: %w", err)
	}
	buffer := make([]byte, 1<<20)
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return n, fmt.Errorf("count lines: %w", err)
		}
		for {
			got, err := f.Read(buffer)
			n += bytes.Count(buffer[:got], []byte{'\n'})
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return n, errors.Join(fmt.Errorf("count lines: %w", err), f.Close())
			}
		}
		if err := f.Close(); err != nil {
			return n, fmt.Errorf("count lines: %w", err)
		}
	}
	return n, nil
}
