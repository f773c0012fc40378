package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// mostReconcile is how long a reconciliation may take, as a share of the time in
// which the same events were exported.
const mostReconcile = 0.3

// measureReconcile compares sinks with the source just after an export to them,
// as whole processes like the export. An empty directory is the most that can
// be missing.
func measureReconcile(ctx context.Context, b *bed, r *report) error {
	if err := b.loadRate(ctx); err != nil {
		return err
	}
	if err := b.reconcileFiles(ctx, r); err != nil {
		return err
	}
	w, err := openLibrary(ctx)
	if err != nil {
		return err
	}
	return errors.Join(b.reconcileTable(ctx, r, w), w.close())
}

func (b *bed) reconcileFiles(ctx context.Context, r *report) (err error) {
	e, err := b.newExport(ctx, rateSchema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	if err := b.reconcileTurns(ctx, r, "files", e, func() error {
		return errors.Join(os.RemoveAll(e.dir), os.Mkdir(e.dir, 0o755))
	}); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(e.dir), os.Mkdir(e.dir, 0o755)); err != nil {
		return err
	}
	p, err := startProcess(e.env, b.Exporter, "reconcile", "--consumer", consumer)
	if err != nil {
		return err
	}
	u, _ := p.wait() // exit code 3: everything is missing
	r.judge("reconcile, everything missing: peak RSS", mebibytes(float64(u.RSS)), "≤ "+mebibytes(mostRSS), float64(u.RSS) <= mostRSS)
	r.note("reconcile, everything missing", "%s", u.Wall.Round(time.Millisecond))
	return nil
}

func (b *bed) reconcileTable(ctx context.Context, r *report, w *warehouse) (err error) {
	const table = "reconciled"
	e, err := b.newExport(ctx, rateSchema, "CONSUMER_BENCH_SINK=clickhouse", "CONSUMER_BENCH_CLICKHOUSE_DSN="+w.dsn,
		"CONSUMER_BENCH_CLICKHOUSE_TABLE="+table, "CONSUMER_BENCH_LINGER=0s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	return b.reconcileTurns(ctx, r, w.name, e, func() error {
		if err := w.conn.Exec(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
			return fmt.Errorf("drop table %s: %w", table, err)
		}
		return w.create(ctx, table)
	})
}

// reconcileTurns exports and reconciles in turns; empty makes the sink new.
func (b *bed) reconcileTurns(ctx context.Context, r *report, name string, e *export, empty func() error) error {
	var export, whole, identities, rss sample
	for turn := range b.Repeat {
		if err := empty(); err != nil {
			return err
		}
		if _, err := b.pool.Exec(ctx, "DELETE FROM "+e.schema+".consumers"); err != nil {
			return fmt.Errorf("forget the consumer: %w", err)
		}
		var took []time.Duration
		for _, args := range [][]string{{"run", "--once"}, {"reconcile", "--consumer", consumer}, {"reconcile", "--consumer", consumer, "--identities"}} {
			before, err := b.serverCPU()
			if err != nil {
				return err
			}
			u, err := runProcess(ctx, e.env, b.Exporter, args...)
			if err != nil {
				return err
			}
			after, err := b.serverCPU()
			if err != nil {
				return err
			}
			b.say("turn %d: %s: %s: %.2f s, CPU %.2f s (PostgreSQL %.2f s), peak %s", turn+1, name, strings.Join(args, " "),
				u.Wall.Seconds(), u.CPU.Seconds(), (after - before).Seconds(), mebibytes(float64(u.RSS)))
			took = append(took, u.Wall)
			if args[0] == "reconcile" {
				rss = append(rss, float64(u.RSS))
			}
		}
		export = append(export, took[0].Seconds())
		whole, identities = append(whole, took[1].Seconds()/took[0].Seconds()), append(identities, took[2].Seconds()/took[0].Seconds())
	}
	r.note(name+": export", "%.2f s median for %d events", export.median(), b.Events)
	for _, x := range []struct {
		name  string
		share sample
	}{{"reconcile / export", whole}, {"reconcile --identities / export", identities}} {
		r.judge(name+": "+x.name, fmt.Sprintf("%.2f median", x.share.median()), fmt.Sprintf("≤ %.1f", mostReconcile), x.share.median() <= mostReconcile)
	}
	peak := rss.quantile(1)
	r.judge(name+": reconcile: peak RSS", mebibytes(peak), "≤ "+mebibytes(mostRSS), peak <= mostRSS)
	return nil
}
