package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/docket-exporter/exporter/cursor"
)

// trySink refuses a sink that cannot be opened as it is configured, before
// anything is begun. Later that is waited for, and so is a full disk.
func trySink(ctx context.Context, c ConsumerConfig) error {
	var err error
	if c.Sink == SinkFile { // opening it would take over what the consumer has open
		err = checkFile(c.File)
	} else if s, openErr := openSink(ctx, c, namesUsed{}, slog.New(slog.DiscardHandler)); openErr == nil {
		err = s.Close()
	} else {
		err = openErr
	}
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return usage(fmt.Errorf("%s: %w", c.sinkVariables(), err))
}

// inForeground works on the backfill and shows how far it is.
func (x *backfiller) inForeground(ctx context.Context, p *process) error {
	stop := showProgress(ctx, p, x)
	err := x.run(ctx)
	stop()
	b, statusErr := x.store.Backfill(context.WithoutCancel(ctx), x.name)
	if statusErr != nil {
		return errors.Join(err, statusErr)
	}
	_, owned := errors.AsType[*cursor.OwnedError](err)
	switch {
	case err == nil:
		return say(p, "%s is finished at %s; %s sent%s", x.name, shortPosition(b.Position), plural(b.EventsAccepted, "event"), x.nothingMatched(&b))
	case errors.Is(err, errStoppedEarly):
		return withHint(fmt.Errorf("backfill %s: %w, at %s, %s done", x.name, err, shortPosition(b.Position), percentOf(x.spec.Below, &b)),
			"the same command goes on from there")
	case b.Cancelled:
		return needsPerson(cancelledError(&b))
	case b.Paused != nil:
		return pausedError(&b)
	case owned:
		return withHint(fmt.Errorf("backfill %s: another process works on it, and nothing was changed: %w", x.name, err),
			"see how far it is: exporter backfill show "+x.name)
	default:
		return fmt.Errorf("backfill %s: %w", x.name, err)
	}
}

// nothingMatched says so of a backfill with a filter that has sent nothing.
func (x *backfiller) nothingMatched(b *cursor.BackfillStatus) string {
	c := &x.consumer
	switch {
	case b.EventsAccepted > 0 || b.DeadLetters > 0 || len(c.Runs)+len(c.Types)+len(c.Tenants)+len(c.Graphs) == 0:
		return ""
	case x.spec.only() != "":
		return ": nothing matched " + oneLine(x.spec.only())
	default:
		return ": nothing matched the filter of " + x.spec.Consumer
	}
}

func pausedError(b *cursor.BackfillStatus) error {
	return needsPerson(withHint(fmt.Errorf("backfill %s is paused by %s: %s: %s", b.Name, b.Paused.By, b.Paused.Reason, b.Paused.Detail),
		fmt.Sprintf("exporter backfill resume %s --reason TEXT, and then the same command", b.Name)))
}

func cancelledError(b *cursor.BackfillStatus) error {
	return fmt.Errorf("backfill %s was cancelled %s at %s, %s sent", b.Name, stamp(b.Finished), shortPosition(b.Position), plural(b.EventsAccepted, "event"))
}
