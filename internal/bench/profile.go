package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sinks/file"
	"github.com/docket-exporter/exporter/sources/docket"
)

// profile exports the rows of the rate once more with the parts of the exporter
// in a process of ours, which can be profiled: the exporter itself offers no
// profiles.
func profile(ctx context.Context, b *bed, r *report) (err error) {
	if err := b.loadRate(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(b.Profile, 0o755); err != nil {
		return fmt.Errorf("make directory for profiles: %w", err)
	}
	e, err := b.newExport(ctx, rateSchema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	u, err := self(ctx, "pipeline", b.url(), rateSchema, e.schema, e.dir, b.Profile)
	if err != nil {
		return err
	}
	lines, err := countLines(e.dir)
	if err != nil {
		return err
	}
	if lines != b.Events {
		return fmt.Errorf("the files hold %d lines for %d events", lines, b.Events)
	}
	r.note("profiled pipeline: wall time", "%s", strings.TrimSpace(u.Output))
	r.note("profiled pipeline", "%.0f rows/s, %.2f s CPU per million; see `go tool pprof -top %s`",
		perSecond(b.Events, u.Wall), perMillion(b.Events, u.CPU), filepath.Join(b.Profile, "cpu.pprof"))
	return nil
}

// pipelineChild exports once under a profile of processor time, and writes one
// of allocations at the end:
//
//	pipeline URL DOCKET-SCHEMA EXPORT-SCHEMA FILES PROFILES
func pipelineChild(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) != 5 {
		return fmt.Errorf("the loop pipeline wants 5 words, not %q", args)
	}
	runtime.MemProfileRate = 64 << 10
	cpu, err := os.Create(filepath.Join(args[4], "cpu.pprof"))
	if err != nil {
		return fmt.Errorf("make profile: %w", err)
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return fmt.Errorf("start profile: %w", err)
	}
	phases := phaseTimes{spent: map[exporter.Phase]time.Duration{}}
	err = pipeline(ctx, args[0], args[1], args[2], args[3], phases.note)
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, phases.String()); err != nil {
		return err
	}
	allocs, err := os.Create(filepath.Join(args[4], "allocs.pprof"))
	if err != nil {
		return fmt.Errorf("make profile: %w", err)
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close())
}

// phaseTimes are how long a pipeline was in each phase, waiting for the server
// and the disk included.
type phaseTimes struct {
	spent map[exporter.Phase]time.Duration
	now   exporter.Phase
	since time.Time
}

func (t *phaseTimes) note(p exporter.Progress) {
	at := time.Now()
	if t.now != "" {
		t.spent[t.now] += at.Sub(t.since)
	}
	t.now, t.since = p.Phase, at
}

func (t *phaseTimes) String() string {
	var words []string
	for _, phase := range []exporter.Phase{exporter.Reading, exporter.Delivering, exporter.Recording, exporter.Waiting} {
		words = append(words, fmt.Sprintf("%s %s", phase, t.spent[phase].Round(time.Millisecond)))
	}
	return strings.Join(words, ", ")
}

// pipeline wires one consumer as the command run does, with its defaults.
func pipeline(ctx context.Context, url, docketSchema, exportSchema, dir string, progress func(exporter.Progress)) (err error) {
	const lease, pollInterval, statementTimeout = 15 * time.Second, 100 * time.Millisecond, 30 * time.Second
	const batchEvents, batchBytes, segmentBytes, segmentAge = 10_000, 6 << 20, 256 << 20, time.Hour
	pools, err := openPools(ctx, url, 2, 2, 1)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range pools {
			p.Close()
		}
	}()
	store := cursor.NewStore(pools[1], pools[2], exportSchema)
	if _, err := store.Create(ctx, cursor.Consumer{Name: consumer, By: "bench", Reason: "profile"}); err != nil {
		return err
	}
	own, state, err := store.Claim(ctx, consumer, "bench", lease)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Release(context.WithoutCancel(ctx), false)) }()
	sink, err := file.Open(file.Config{Dir: dir, SegmentBytes: segmentBytes, SegmentAge: segmentAge}, consumer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	p := &exporter.Pipeline{
		Consumer: consumer, Cursor: own, Sink: sink, Once: true, PollInterval: pollInterval, Progress: progress,
		Source: docket.New(pools[0], docket.Options{
			Schema: docketSchema, Limits: docket.Limits{Events: batchEvents, Bytes: batchBytes}, StatementTimeout: statementTimeout,
		}),
	}
	return own.Run(ctx, func() cursor.Heartbeat { return cursor.Heartbeat{} }, func(ctx context.Context) error {
		return p.Run(ctx, ctx.Done(), state)
	})
}

// openPools opens pools of these sizes whose connections are set up as the
// exporter's are.
func openPools(ctx context.Context, url string, sizes ...int32) ([]*pgxpool.Pool, error) {
	var pools []*pgxpool.Pool
	for _, size := range sizes {
		c, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, fmt.Errorf("read URL: %w", err)
		}
		c.MaxConns = size
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.ConnConfig.StatementCacheCapacity, c.ConnConfig.DescriptionCacheCapacity = 0, 0
		p, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("open pool: %w", err)
		}
		pools = append(pools, p)
	}
	return pools, nil
}
