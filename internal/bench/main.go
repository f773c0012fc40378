// Command bench measures the exporter on one machine and puts each number
// beside its target: the rate against a bare pgx loop over the same rows,
// processor time, memory, latency and idle cost, and the sinks ClickHouse and
// Pub/Sub against servers of its own. It starts a private PostgreSQL
// with fsync on, writes the rows itself, and leaves nothing behind.
//
// What is compared runs in turns on the same data, and every loop in a process
// of its own, so that load on the machine and memory of others weigh on all
// alike. A missed target is reported, not an error: the exit code is 1 only
// when something could not be measured.
//
// It is run by `make bench`; settings.go lists the variables.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures, or is one loop when the bench has started itself with words.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return child(ctx, args, out)
	}
	s, err := readSettings(os.Getenv)
	if err != nil {
		return err
	}
	return measure(ctx, s, out)
}

func measure(ctx context.Context, s settings, out io.Writer) (err error) {
	if err := s.findServers(); err != nil {
		return err
	}
	b, err := openBed(ctx, s, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	syncs, err := b.fsyncTimes()
	if err != nil {
		return err
	}
	b.say("load average at the start: %s; 4 kB and fsync on this disk: %.2f ms p50, %.2f ms p99", loadAverage(),
		syncs.quantile(0.5), syncs.quantile(0.99))
	var r report
	for _, part := range []struct {
		name string
		run  func(context.Context, *bed, *report) error
	}{
		{"rate", measureRate},
		{"profile", profile},
		{"rss", measureLarge},
		{"memory", measureMemory},
		{"latency", measureLatency},
		{"isolation", measureIsolation},
		{"idle", measureIdle},
		{"clickhouse", measureClickHouse},
		{"pubsub", measurePubSub},
		{"reconcile", measureReconcile},
		{"backfill", measureBackfill},
		{"flat", measureFlat},
	} {
		if !s.wants(part.name) {
			continue
		}
		if err := part.run(ctx, b, &r); err != nil {
			return fmt.Errorf("measure %s: %w", part.name, err)
		}
	}
	b.say("load average at the end: %s\n", loadAverage())
	return r.write(out)
}
