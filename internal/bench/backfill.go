package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	backfillSchema = "bench_backfill"
	backfillWriter = 500 // events a second beside a backfill
	backfillKills  = 5
	backfillSpan   = 40 // seconds that a backfill with a rate takes

	leastBackfill = 0.9 // of the live rate
	mostRateError = 0.05
	mostTimeError = 0.2
	mostSlowdown  = 2.0  // of a live consumer's p99
	mostOpen      = 10.0 // seconds
)

// fromLatest begins a consumer behind everything, so that a backfill has all.
const fromLatest = "CONSUMER_BENCH_START=latest"

// measureBackfill compares a backfill with live export of the same rows, and
// takes what it does to a live consumer beside it.
func measureBackfill(ctx context.Context, b *bed, r *report) error {
	if err := b.load(ctx, backfillSchema, b.Events, min(b.Events, 1_000_000), docketsim.LoadOptions{Age: 24 * time.Hour}); err != nil {
		return err
	}
	for _, part := range []func(context.Context, *bed, *report) error{backfillRates, backfillAtARate, backfillBesideLive} {
		if err := part(ctx, b, r); err != nil {
			return err
		}
	}
	return nil
}

// backfillRates takes turns with live export.
func backfillRates(ctx context.Context, b *bed, r *report) error {
	var live, back sample
	for range b.Repeat {
		u, err := b.exportOnce(ctx, backfillSchema, b.Events)
		if err != nil {
			return err
		}
		live = append(live, perSecond(b.Events, u.Wall))
		u, _, err = b.backfillOnce(ctx)
		if err != nil {
			return err
		}
		back = append(back, perSecond(b.Events, u.Wall))
	}
	ratio := back.median() / live.median()
	r.judge("backfill to files / live", fmt.Sprintf("%.2f median, %.0f rows/s", ratio, back.median()), fmt.Sprintf("≥ %.1f", leastBackfill), ratio >= leastBackfill)
	return nil
}

// newHistory is an export whose consumer has begun behind everything.
func (b *bed) newHistory(ctx context.Context) (*export, error) {
	e, err := b.newExport(ctx, backfillSchema)
	if err != nil {
		return nil, err
	}
	e.env = append(e.env, fromLatest, "EXPORTER_LEASE_TTL=2s")
	_, err = runProcess(ctx, e.env, b.Exporter, "run", "--once")
	return e, err
}

// backfillOnce does one whole backfill and returns what it said on stderr.
func (b *bed) backfillOnce(ctx context.Context, more ...string) (u usage, said string, err error) {
	e, err := b.newHistory(ctx)
	if err != nil {
		return u, "", err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	p, err := startProcess(e.env, b.Exporter, b.backfillArgs(more...)...)
	if err != nil {
		return u, "", err
	}
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	u, err = p.wait()
	if err == nil && !strings.Contains(u.Output, fmt.Sprintf("; %d events sent", b.Events)) {
		err = fmt.Errorf("a backfill of %d events says: %s", b.Events, u.Output)
	}
	return u, p.stderr.String(), err
}

func (b *bed) backfillArgs(more ...string) []string {
	return append([]string{"backfill", "--consumer", consumer, "--from", "earliest", "--name", "history"}, more...)
}

// backfillAtARate takes how well a rate holds, and how long the first line
// after a tenth says it will take.
func backfillAtARate(ctx context.Context, b *bed, r *report) error {
	want := max(1, b.Events/backfillSpan)
	u, said, err := b.backfillOnce(ctx, "--rate", fmt.Sprintf("%d/s", want))
	if err != nil {
		return err
	}
	got := perSecond(b.Events, u.Wall)
	off := got/float64(want) - 1
	r.judge(fmt.Sprintf("backfill with --rate %d/s", want), fmt.Sprintf("%.0f/s, %+.1f %%", got, 100*off), fmt.Sprintf("± %.0f %%", 100*mostRateError), max(off, -off) <= mostRateError)
	line := regexp.MustCompile(`(?m) ([0-9.]+) % .* (\S+) left`)
	for i, m := range line.FindAllStringSubmatch(said, -1) {
		done, _ := strconv.ParseFloat(m[1], 64)
		left, err := time.ParseDuration(m[2])
		if err != nil || done < 10 {
			continue
		}
		at := time.Duration(i+1) * 10 * time.Second // the first line has no time left
		off := (at+left).Seconds()/u.Wall.Seconds() - 1
		r.judge(fmt.Sprintf("backfill, time left as said after %.0f %%", done), fmt.Sprintf("%s, %+.1f %% of the whole", left, 100*off),
			fmt.Sprintf("± %.0f %%", 100*mostTimeError), max(off, -off) <= mostTimeError)
		return nil
	}
	return fmt.Errorf("no line tells what is left:\n%s", said)
}

// backfillBesideLive writes and exports, first alone and then beside a backfill
// that is killed now and then.
func backfillBesideLive(ctx context.Context, b *bed, r *report) (err error) {
	if err := b.load(ctx, sampleSchema, sampleEvents, sampleEvents, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		return err
	}
	runs, err := readSample(ctx, b.pool, sampleSchema)
	if err != nil {
		return err
	}
	e, err := b.newHistory(ctx)
	if err != nil {
		return err
	}
	p, err := startProcess(e.env, b.Exporter, "run")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end(ctx, p, e)) }()
	if err := b.await(ctx, "SELECT count(owner) = 1 FROM "+e.schema+".consumers"); err != nil {
		return err
	}
	write := func(ctx, writing context.Context, name string) (sample, error) {
		w := &writer{url: b.url(), schema: backfillSchema, name: name, rate: backfillWriter, runs: runs, committed: make(chan commit, 1<<16)}
		return b.writeAndWatch(ctx, writing, w, e.schema)
	}
	first, cancel := context.WithTimeout(ctx, b.Duration)
	defer cancel()
	alone, err := write(ctx, first, "alone")
	if err != nil {
		return err
	}
	var open float64
	var with sample
	var took time.Duration
	group, working := errgroup.WithContext(ctx)
	ended, end := context.WithCancel(working)
	group.Go(func() error {
		defer end()
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return b.backfillWithKills(working, e)
	})
	group.Go(func() (err error) {
		with, err = write(working, ended, "beside")
		return err
	})
	group.Go(func() (err error) {
		open, err = b.oldestTransaction(ended)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	lines, err := countFiles(e.dir, "history-*")
	if err != nil {
		return err
	}
	var events int
	err = b.pool.QueryRow(ctx, "SELECT count(*) FROM "+backfillSchema+".docket_events d, "+e.schema+
		".consumers c WHERE c.name = 'history' AND d.id <= c.until_high AND NOT d.id <@ c.until_holes").Scan(&events)
	if err != nil {
		return fmt.Errorf("count events of the backfill: %w", err)
	}
	r.judge(fmt.Sprintf("events missing or doubled after %d kills of a backfill", backfillKills), fmt.Sprint(lines-events), "0", lines == events)
	slower := with.quantile(0.99) / alone.quantile(0.99)
	r.judge("live p99 beside a backfill / alone", fmt.Sprintf("%.1f, %.1f ms and %.1f ms", slower, with.quantile(0.99), alone.quantile(0.99)),
		fmt.Sprintf("≤ %.0f", mostSlowdown), slower <= mostSlowdown)
	r.note("backfill beside live", "%.0f rows/s, kills included; %d live events beside it", perSecond(events, took), len(with))
	r.judge("oldest transaction of ours", fmt.Sprintf("%.2f s", open), fmt.Sprintf("≤ %.0f s", mostOpen), open <= mostOpen)
	return nil
}

// backfillWithKills kills a backfill after random times and then lets it end.
func (b *bed) backfillWithKills(ctx context.Context, e *export) error {
	for range backfillKills {
		p, err := startProcess(e.env, b.Exporter, b.backfillArgs()...)
		if err != nil {
			return err
		}
		select {
		case <-time.After(300*time.Millisecond + time.Duration(rand.Int64N(int64(2*time.Second)))):
		case <-ctx.Done():
		}
		_ = p.cmd.Process.Kill()
		_, _ = p.wait() // its exit is the signal
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	_, err := runProcess(ctx, e.env, b.Exporter, b.backfillArgs()...)
	return err
}

// oldestTransaction is the longest that a transaction of an exporter was open
// until ctx ended, in seconds.
func (b *bed) oldestTransaction(ctx context.Context) (most float64, err error) {
	for ctx.Err() == nil {
		var age float64
		err := b.pool.QueryRow(context.WithoutCancel(ctx), `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
			FROM pg_stat_activity WHERE application_name = 'docket-exporter'`).Scan(&age)
		if err != nil {
			return most, fmt.Errorf("read transactions: %w", err)
		}
		most = max(most, age)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return most, nil
}

// countFiles counts the lines of the files that a pattern matches.
func countFiles(dir, pattern string) (n int, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return 0, fmt.Errorf("list files: %w", err)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return n, fmt.Errorf("count lines: %w", err)
		}
		lines := bufio.NewReaderSize(f, 1<<20)
		for {
			piece, err := lines.ReadSlice('\n')
			n += bytes.Count(piece, []byte{'\n'})
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err := f.Close(); err != nil {
			return n, fmt.Errorf("count lines: %w", err)
		}
	}
	return n, nil
}
