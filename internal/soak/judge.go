package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/verdict"
)

// drainTime bounds catching up once nothing is written or broken any more.
const drainTime = 2 * time.Minute

// report prints how far everybody is. While the server is down it says so.
func (w *world) report(ctx context.Context, after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	written := w.writer.Stats()
	line := fmt.Sprintf("%4.0f s  %3d faults  %7d written (+%d in doubt)", after.Seconds(), w.faults.total(), written.Events, written.Unknown)
	list, err := w.store().List(ctx)
	if err != nil {
		fmt.Println(line + "  the server does not answer")
		return
	}
	for _, c := range list {
		line += fmt.Sprintf("  %s: %d accepted, %d open, epoch %d (%s %s)",
			c.Name, c.EventsAccepted, c.Position.Holes.Count(), c.Epoch, c.State(), c.Owner)
	}
	fmt.Println(line)
}

// drain waits until every consumer's position contains every event.
func (w *world) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	fmt.Println("faults:", w.faults)
	fmt.Println("nothing is written or broken any more; catching up")
	began := time.Now()
	for {
		left, err := w.left(ctx)
		if err == nil && left == "" {
			fmt.Printf("caught up after %v\n", time.Since(began).Round(100*time.Millisecond))
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the consumers have not caught up within %v: left %s: %w", drainTime, left, errors.Join(err, ctx.Err()))
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// left says what the consumers have not done; empty when that is nothing.
func (w *world) left(ctx context.Context) (text string, err error) {
	for _, c := range consumers {
		status, err := w.store().Get(ctx, c.name)
		if err != nil {
			return "", err
		}
		var events int
		err = w.admin.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{docketSchema, "docket_events"}.Sanitize()+
			" WHERE id > $1 OR id <@ $2::text::int8multirange", status.Position.High, status.Position.Holes.String()).Scan(&events)
		if err != nil {
			return "", err
		}
		if events > 0 || status.Intent != nil || status.Paused != nil {
			text += fmt.Sprintf(" %s: %d events at %s, in flight %v, paused %v, last error %q;",
				c.name, events, status.Position, status.Intent != nil, status.Paused, status.LastError)
		}
	}
	return text, nil
}

// judge compares table and files of each consumer.
func (w *world) judge(ctx context.Context) error {
	var wrong error
	for _, c := range consumers {
		r, err := verdict.Read(ctx, w.admin, docketSchema, c.keep, w.filesOf(c), c.name)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("consumer %s: %w", c.name, err))
			continue
		}
		status, err := w.store().Get(ctx, c.name)
		if err != nil {
			return errors.Join(wrong, err)
		}
		fmt.Printf("%s: %s; %d ownerships, %d dead letters, %d losses\n", c.name, r, status.Epoch, status.DeadLetters, status.Losses)
		for _, example := range r.Examples {
			fmt.Println("  " + example)
		}
		if err := w.acceptable(c, r); err != nil {
			wrong = errors.Join(wrong, err)
		}
		if status.DeadLetters > 0 || status.Losses > 0 {
			wrong = errors.Join(wrong, fmt.Errorf("consumer %s has dead letters or losses, and nothing to blame them on", c.name))
		}
	}
	return wrong
}

// acceptable allows for one batch written twice for each fault: the one that
// was in flight.
func (w *world) acceptable(c consumer, r verdict.Result) error {
	if !r.Complete() {
		return fmt.Errorf("consumer %s: the files do not hold what the table holds: %s", c.name, r)
	}
	if most := w.faults.total() * c.batchEvents; r.Duplicated > most {
		return fmt.Errorf("consumer %s: %d duplicates, more than the %d that %d faults explain", c.name, r.Duplicated, most, w.faults.total())
	}
	return nil
}
