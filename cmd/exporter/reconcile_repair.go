package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sources/docket"
)

// repairer sends events again that the sink lacks. They are done, so the
// consumer's owner does not send them: what could go wrong is that one comes
// twice, with the same identity.
type repairer struct {
	*reconciliation
	source *docket.Source
	log    *slog.Logger
	sink   sink   // nil until it is needed
	uid    string // of the batches: a new one for each repair, so that a server that dropped duplicates by it cannot swallow a second repair
	number int64
	left   []reconcile.Refusal
}

func newRepairer(j *reconciliation, source *docket.Source) *repairer {
	return &repairer{
		reconciliation: j, source: source, uid: j.status.UID + " repair " + rand.Text(),
		log: j.p.logger(j.config.Log).With("consumer", j.consumer.Name),
	}
}

func (r *repairer) close() error {
	if r.sink == nil {
		return nil
	}
	return r.sink.Close()
}

const (
	repairEvents = 1000
	repairBytes  = 4 << 20         // encoded
	repairTime   = 2 * time.Minute // of one request
)

// repair sends absent events in the order of their runs, and says of which the
// sink did not take why. An error ends the comparison.
func (r *repairer) repair(ctx context.Context, absent []reconcile.Absent) ([]reconcile.Refusal, error) {
	r.left = nil
	absent = slices.Clone(absent)
	slices.SortFunc(absent, func(a, b reconcile.Absent) int { return a.Identity.Compare(b.Identity) })
	for len(absent) > 0 {
		n, bytes := 0, int64(0)
		for n < len(absent) && n < repairEvents && (n == 0 || bytes+absent[n].Bytes <= repairBytes) {
			bytes += absent[n].Bytes
			n++
		}
		if err := r.batch(ctx, absent[:n]); err != nil {
			return r.left, err
		}
		absent = absent[n:]
	}
	return r.left, nil
}

func (r *repairer) batch(ctx context.Context, absent []reconcile.Absent) error {
	absent, err := r.stillDone(ctx, absent)
	if err != nil || len(absent) == 0 {
		return err
	}
	var ids exporter.Ranges
	for _, a := range absent {
		ids = ids.Union(exporter.Ranges{{Lo: a.EventID, Hi: a.EventID}})
	}
	b, err := r.source.Events(ctx, ids)
	if err != nil {
		return fmt.Errorf("read missing events: %w", err)
	}
	for _, x := range b.Poison {
		r.refuse(x.Event.Identity(), x.Class+": "+x.Reason)
	}
	if len(b.Events) == 0 {
		return nil
	}
	if err := r.audit(ctx, b.Events); err != nil {
		return err
	}
	if r.sink == nil {
		if r.sink, err = openReplaySink(ctx, r.consumer, r.log); err != nil {
			return usage(fmt.Errorf("%s: %w", r.consumer.sinkVariables(), err))
		}
	}
	resend := resender{sink: r.p.pipes.wrapSink(r.sink), owner: r, what: "missing events", limit: repairTime, log: r.log}
	_, _, err = resend.send(ctx, b.Events)
	return err
}

// stillDone leaves out what the consumer is about to deliver by itself. Another
// consumer of the same name ends the repair.
func (r *repairer) stillDone(ctx context.Context, absent []reconcile.Absent) ([]reconcile.Absent, error) {
	now, err := r.store.Get(ctx, r.consumer.Name)
	if err != nil {
		return nil, err
	}
	if now.UID != r.status.UID {
		return nil, needsPerson(fmt.Errorf("consumer %s was removed and made again meanwhile; nothing more is sent", r.consumer.Name))
	}
	if now.Paused != nil && now.Paused.Reason == exporter.PausedSourceChanged {
		return nil, needsPerson(fmt.Errorf("consumer %s is paused: %s: %s", r.consumer.Name, now.Paused.Reason, now.Paused.Detail))
	}
	return slices.DeleteFunc(absent, func(a reconcile.Absent) bool {
		if now.Position.Contains(a.EventID) {
			return false
		}
		r.refuse(a.Identity, "the consumer was moved back below it meanwhile and delivers it by itself")
		return true
	}), nil
}

func (r *repairer) refuse(id exporter.Identity, reason string) {
	r.left = append(r.left, reconcile.Refusal{Identity: id, Reason: reason})
}

// audit writes down what is about to be sent.
func (r *repairer) audit(ctx context.Context, events []exporter.Event) error {
	var ids exporter.Ranges
	for i := range events {
		ids = ids.Union(exporter.Ranges{{Lo: events[i].ID, Hi: events[i].ID}})
	}
	return r.store.Repairing(ctx, r.consumer.Name, cursor.Reviewed{By: r.By, Reason: r.Reason},
		map[string]any{"events": len(events), "event_ids": ids.String(), "uid": r.status.UID})
}

// ready implements resending: nobody else sends what is done.
func (r *repairer) ready(events []exporter.Event) ([]exporter.Event, error) { return events, nil }

// accepted implements resending: the sink is read again after the repair.
func (r *repairer) accepted([]exporter.Event) error { return nil }

// refused implements resending. It holds nothing back: later events of the run
// may be with the sink already.
func (r *repairer) refused(e exporter.Event, why string, later []exporter.Event) []exporter.Event {
	r.refuse(e.Identity(), why)
	return later
}

// request implements resending.
func (r *repairer) request(events []exporter.Event, attempt int) exporter.Batch {
	if attempt == 1 {
		r.number++
	}
	b := exporter.Batch{
		Consumer: r.consumer.Name, UID: r.uid, Number: r.number, Shape: r.consumer.shape(), Attempt: attempt, Rows: len(events), Events: events,
	}
	for i := range events {
		b.Bytes += int64(len(events[i].EncodedPayload) + len(events[i].EncodedMetadata))
	}
	return b
}
