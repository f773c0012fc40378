package main

import (
	"context"
	"fmt"
	"time"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

func (d *demo) describe() {
	fmt.Fprintf(d.out, "database  %s\n", d.database.describe())
	fmt.Fprintf(d.out, "exporter  process %d, %s\n", d.exporter.process.PID(), d.exporter.metrics)
	fmt.Fprintf(d.out, "files     %s\n\n", d.files.events)
	fmt.Fprintf(d.out, "%7s %9s %9s %7s %10s %12s\n", "seconds", "written", "exported", "lag", "open holes", "holes filled")
}

// report prints a line every second.
func (d *demo) report(ctx context.Context) error {
	tick := time.NewTicker(demoInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := d.line(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// line prints where writers and exporter are. Both go on while they are asked,
// so the lag is that of about the same moment; it is never shown negative.
func (d *demo) line(ctx context.Context) error {
	status, err := d.status(ctx)
	if err != nil {
		return err
	}
	filled, err := d.exporter.counter(ctx, "docket_exporter_holes_filled_total")
	if err != nil {
		return err
	}
	written := d.writer.Stats().Events
	_, err = fmt.Fprintf(d.out, "%7.0f %9d %9d %7d %10d %12d\n", time.Since(d.began).Seconds(),
		written, status.EventsAccepted, max(0, written-status.EventsAccepted), status.Position.Holes.Count(), filled)
	return err
}

func (d *demo) status(ctx context.Context) (cursor.Status, error) {
	return cursor.NewStore(d.pool, nil, d.database.exportSchema).Get(ctx, demoConsumer)
}

// catchUp waits until the exporter's position contains every event of the
// table, to which nobody writes any more.
func (d *demo) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoCatchUp)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := d.undelivered(ctx)
		if err == nil && left == 0 {
			return d.line(ctx)
		}
		select {
		case <-tick.C:
			continue
		case <-d.exporter.process.Done():
			err = fmt.Errorf("the exporter ended before its time: %w", orClean(d.exporter.process.Err()))
		case <-ctx.Done():
			err = fmt.Errorf("the exporter has not caught up %s after the last event; %d are left: %w", demoCatchUp, left, ctx.Err())
		}
		return err
	}
}

// undelivered counts the table's events that the position does not contain.
func (d *demo) undelivered(ctx context.Context) (n int64, err error) {
	status, err := d.status(ctx)
	if err != nil {
		return 0, err
	}
	left, err := docket.ReadBacklog(ctx, d.pool, d.database.schema, docket.Rest{After: status.Position})
	return left.Events, err
}
