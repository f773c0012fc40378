package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	idleSchema   = "bench_idle"
	idleEvents   = 1000 // so that there is something to have caught up with
	idleFor      = 10 * time.Second
	settleFor    = 2 * time.Second // after the consumer is claimed
	mostIdle     = 0.01            // of a core
	awaitAtMost  = 30 * time.Second
	awaitBetween = 20 * time.Millisecond
)

// measureIdle lets the exporter run with nothing to do.
func measureIdle(ctx context.Context, b *bed, r *report) (err error) {
	if err := b.load(ctx, idleSchema, idleEvents, idleEvents, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		return err
	}
	e, err := b.newExport(ctx, idleSchema)
	if err != nil {
		return err
	}
	p, err := startProcess(e.env, b.Exporter, "run")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end(ctx, p, e)) }()
	if err := b.await(ctx, "SELECT coalesce(max(events_accepted) = $1, false) FROM "+e.schema+".consumers", int64(idleEvents)); err != nil {
		return err
	}
	if err := pause(ctx, settleFor); err != nil {
		return err
	}
	began, cpu, server, err := b.clocks(p)
	if err != nil {
		return err
	}
	if err := pause(ctx, idleFor); err != nil {
		return err
	}
	ended, cpuAfter, serverAfter, err := b.clocks(p)
	if err != nil {
		return err
	}
	share := (cpuAfter - cpu).Seconds() / ended.Sub(began).Seconds()
	r.judge("idle CPU", percent(share), "< "+percent(mostIdle), share < mostIdle)
	r.note("idle CPU of the server", "%s", percent((serverAfter-server).Seconds()/ended.Sub(began).Seconds()))
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.2f %% of a core", 100*share) }

// clocks reads the time, and the processor time of a process and of the server.
func (b *bed) clocks(p *process) (at time.Time, cpu, server time.Duration, err error) {
	if cpu, err = p.cpu(); err != nil {
		return at, 0, 0, err
	}
	if server, err = b.serverCPU(); err != nil {
		return at, 0, 0, err
	}
	return time.Now(), cpu, server, nil
}

// await polls until a query says true.
func (b *bed) await(ctx context.Context, sql string, args ...any) error {
	deadline := time.Now().Add(awaitAtMost)
	for {
		var yes bool
		if err := b.pool.QueryRow(ctx, sql, args...).Scan(&yes); err != nil {
			return fmt.Errorf("await the exporter: %w", err)
		}
		if yes {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("await the exporter: after %s still not: %s", awaitAtMost, sql)
		}
		if err := pause(ctx, awaitBetween); err != nil {
			return err
		}
	}
}

// pause waits unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
