package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

func newBackfillCancelCommand(p *process) *cobra.Command {
	return newBackfillChange(p, "cancel", "End a backfill where it is, for good",
		`  exporter backfill cancel analytics_backfill_4f21c09a --reason "wrong range"`,
		func(ctx context.Context, s *cursor.Store, b *cursor.BackfillStatus, c *change) error {
			changed, err := s.Cancel(ctx, b.Name, c.By, c.Reason)
			if err != nil {
				return err
			}
			now, err := s.Backfill(ctx, b.Name)
			if err != nil {
				return err
			}
			did := "is cancelled"
			switch {
			case !now.Cancelled: // it reached its end at this moment
				return say(p, "%s ended %s; nothing was changed", b.Name, stamp(now.Finished))
			case !changed:
				did = "was cancelled " + stamp(now.Finished)
			}
			if err := say(p, "%s %s at %s; the %s it has sent stay where they are", b.Name, did, shortPosition(now.Position), plural(now.EventsAccepted, "event")); err != nil {
				return err
			}
			return settleCancelled(ctx, p, &now)
		})
}

// settleCancelled sees to it that what a cancelled backfill has sent reaches
// whoever reads it: a sink of files may have one open, which readers do not take.
func settleCancelled(ctx context.Context, p *process, b *cursor.BackfillStatus) error {
	again := fmt.Sprintf("exporter backfill cancel %s --reason TEXT", b.Name)
	if b.Epoch <= 1 { // which is the cancelling: nobody has begun with it
		return nil
	}
	if b.LeaseLive {
		return say(p, "%s works on it and finishes what it has open within seconds; if it was killed, after %s: %s",
			b.Owner, stamp(b.LeaseUntil), again)
	}
	spec, err := specOf(b)
	if err != nil {
		return err
	}
	c, err := loadConfig(p.env)
	of := consumerConfig(c, spec.Consumer)
	if err != nil || of == nil {
		return say(p, "if its sink is file, the last file may still end in .part; where EXPORTER_CONSUMERS names %s this finishes it: %s", spec.Consumer, again)
	}
	if of.Sink != SinkFile {
		return nil
	}
	// Opening finishes what a process that was killed has left, in nobody's hands now.
	left := *of
	left.Name = b.Name
	sink, err := openSink(ctx, left, namesUsed{}, slog.New(slog.DiscardHandler))
	if err == nil {
		err = sink.Close()
	}
	if err != nil {
		return withHint(fmt.Errorf("finish the files of %s: %s: %w", b.Name, of.sinkVariables(), err), "put that right, then "+again)
	}
	return say(p, "its files in %s are finished", of.File.Dir)
}
