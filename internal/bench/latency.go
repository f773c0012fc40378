package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	liveSchema   = "bench_live"
	sampleSchema = "bench_sample"
	sampleEvents = 20_000

	mostP50, mostP99 = 10.0, 60.0 // milliseconds
)

// measureLatency writes at a steady rate while the exporter runs, and takes for
// every event the time from its COMMIT returning to the writer until the
// consumer's stored position covers it: read, delivered, synced and recorded.
func measureLatency(ctx context.Context, b *bed, r *report) (err error) {
	w, err := b.newWriter(ctx)
	if err != nil {
		return err
	}
	e, err := b.newExport(ctx, liveSchema)
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
	began, cpu, server, err := b.clocks(p)
	if err != nil {
		return err
	}
	writing, cancel := context.WithTimeout(ctx, b.Duration)
	defer cancel()
	latencies, err := b.writeAndWatch(ctx, writing, w, e.schema)
	if err != nil {
		return err
	}
	ended, cpuAfter, serverAfter, err := b.clocks(p)
	if err != nil {
		return err
	}
	var batches int64
	if err := b.pool.QueryRow(ctx, "SELECT batch FROM "+e.schema+".consumers").Scan(&batches); err != nil {
		return fmt.Errorf("read number of batches: %w", err)
	}
	took := ended.Sub(began).Seconds()
	p50, p99 := latencies.quantile(0.5), latencies.quantile(0.99)
	at := fmt.Sprintf(" at %d events/s", b.Rate)
	r.judge("commit to accepted"+at+", p50", fmt.Sprintf("%.1f ms", p50), fmt.Sprintf("≤ %.0f ms", mostP50), p50 <= mostP50)
	r.judge("commit to accepted"+at+", p99", fmt.Sprintf("%.1f ms", p99), fmt.Sprintf("≤ %.0f ms", mostP99), p99 <= mostP99)
	r.note("commit to accepted"+at+", max", "%.1f ms of %d events", latencies.quantile(1), len(latencies))
	r.note("written meanwhile", "%.0f events/s in %.0f commits/s of %.1f ms p50", float64(len(latencies))/took,
		float64(w.commits.Load())/took, w.commitTimes().quantile(0.5))
	r.note("batches"+at, "%.0f/s of %.1f events", float64(batches)/took, float64(len(latencies))/float64(max(batches, 1)))
	r.note("CPU"+at, "%s; server with the writer's share %s", percent((cpuAfter-cpu).Seconds()/took), percent((serverAfter-server).Seconds()/took))
	return nil
}

// writeAndWatch writes until writing ends and returns the latency of every event
// in milliseconds, once all are accepted.
func (b *bed) writeAndWatch(ctx, writing context.Context, w *writer, exportSchema string) (sample, error) {
	watch, err := newWatch(ctx, b.url(), exportSchema)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(w.committed)
		return w.run(writing)
	})
	group.Go(func() error { return watch.run(ctx, w.committed) })
	err = group.Wait()
	return watch.latencies, err
}

// newWriter makes a writer into an empty schema from a sample of real rows.
func (b *bed) newWriter(ctx context.Context) (*writer, error) {
	if err := b.load(ctx, sampleSchema, sampleEvents, sampleEvents, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		return nil, err
	}
	if err := docketsim.Install(ctx, b.pool, liveSchema); err != nil {
		return nil, err
	}
	runs, err := readSample(ctx, b.pool, sampleSchema)
	if err != nil {
		return nil, err
	}
	return &writer{url: b.url(), schema: liveSchema, rate: b.Rate, runs: runs, committed: make(chan commit, 1<<16)}, nil
}
