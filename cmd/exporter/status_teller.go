package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/retention"
	"github.com/docket-exporter/exporter/sources/docket"
)

// tellTimeout bounds what a report reads beside the observer's reading.
const tellTimeout = 3 * time.Second

// teller makes reports of what an observer sees. It is safe for concurrent
// use; those who ask within one reading get the same consumers.
type teller struct {
	observer *observer
	export   querier // the exporter's database, where it has to take writes; nil where that does not matter
	db       DatabaseConfig
	process  processReport
	told     *retention.Policy                // nil where nobody told
	policy   func() (retention.Verdict, bool) // with told
	compare  func(context.Context)            // looks for policy; nil where that happens by itself
	guard    func() guardStatus               // nil without one
	waiting  func() error                     // why the process does not work yet; nil where it has nothing to wait for
	log      *slog.Logger

	mu    sync.Mutex
	shown statusReport         // of the last reading
	known map[string]time.Time // when a consumer's backlog was last known, by its uid
}

// started is the process from now on.
func started(command, replica string) processReport {
	return processReport{Command: command, Version: cmp.Or(readBuild().Version, "unknown"), Replica: replica, StartedAt: time.Now().UTC()}
}

// tell is what is known at this moment.
func (t *teller) tell(ctx context.Context) statusReport {
	seen, reading := t.observer.latest()
	t.mu.Lock()
	defer t.mu.Unlock()
	if reading.Err == nil && !reading.At.Equal(t.shown.At) {
		t.take(ctx, seen, reading.At)
	}
	r := t.shown
	if reading.Err != nil {
		r.Consumers, r.Backfills = nil, nil
		r.Unknown = t.unknown(t.db.Export, reading.Err, reading.At)
	}
	r.At, r.Process, r.Retention = reading.At.UTC(), t.process, t.kept()
	if t.guard != nil {
		g := t.guard()
		r.Guard = &g
	}
	if t.waiting != nil {
		if err := t.waiting(); err != nil {
			r.Process.Waiting = oneLine(err.Error())
		}
	}
	if r.Consumers == nil {
		r.Consumers = []consumerReport{}
	}
	if r.Backfills == nil {
		r.Backfills = []consumerReport{}
	}
	return r
}

// take keeps the reports of a new reading.
func (t *teller) take(ctx context.Context, seen []observed, at time.Time) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	shown, known := statusReport{At: at, Source: t.source(ctx), Findings: t.findings(ctx)}, map[string]time.Time{}
	if slices.ContainsFunc(seen, func(s observed) bool { return s.Err == nil }) { // else Docket's database does not answer
		shown.HeldBy = t.heldBy(ctx)
	}
	backfills := t.backfills(ctx, seen)
	for i := range seen {
		s := &seen[i]
		if s.Lag.Backlog != nil {
			known[s.Status.UID] = at
		} else if last, ok := t.known[s.Status.UID]; ok {
			known[s.Status.UID] = last
		}
		r := t.report(ctx, s, known[s.Status.UID])
		if b, ok := backfills[r.Consumer]; ok {
			r.Done, r.Detached = &b.Share, &b.Spec.Detached
			r.judge()
		}
		if r.Kind == cursor.Backfill {
			shown.Backfills = append(shown.Backfills, r)
		} else {
			shown.Consumers = append(shown.Consumers, r)
		}
	}
	t.shown, t.known = shown, known
}

// report is what is known of one consumer.
func (t *teller) report(ctx context.Context, s *observed, known time.Time) consumerReport {
	r := reportOf(&s.Status, t.db)
	r.setLag(&s.Lag, t.observer.watch.Retention())
	if s.Err != nil {
		r.LagUnknown = t.unknown(t.db.Docket, s.Err, known)
	}
	if r.Losses > 0 {
		list, err := t.observer.store.Losses(ctx, r.Consumer, true)
		if err != nil {
			t.log.Debug("the losses are not shown", "consumer", r.Consumer, "err", err)
		}
		for i := range list {
			r.OpenLosses = append(r.OpenLosses, lossReportOf(&list[i]))
		}
	}
	r.judge()
	return r
}

// findings are what is wrong with the databases although they answer.
func (t *teller) findings(ctx context.Context) []finding {
	var found findings
	if err := t.observer.sourceChanged(); err != nil {
		found.failed(docketSubject, explainSource(err, t.db))
	}
	if t.export == nil {
		return found.list
	}
	if err := takesWrites(ctx, t.export, t.db.Export); exitCode(err) == exitPerson {
		found.failed(exportSubject, err)
	} else if err != nil {
		t.log.Debug("whether the export database takes writes is not shown", "err", err)
	}
	return found.list
}

// backfills are what more is known of backfills, by name.
func (t *teller) backfills(ctx context.Context, seen []observed) map[string]backfillReport {
	if !slices.ContainsFunc(seen, func(s observed) bool { return s.Status.Kind == cursor.Backfill }) {
		return nil
	}
	list, err := t.observer.store.Unfinished(ctx)
	if err != nil {
		t.log.Debug("how far backfills are is not shown", "err", err)
	}
	reports := make(map[string]backfillReport, len(list))
	for i := range list {
		if r, err := backfillReportOf(&list[i]); err == nil {
			reports[r.Backfill] = r
		}
	}
	return reports
}

func (t *teller) source(ctx context.Context) *sourceBound {
	b, err := t.observer.store.Source(ctx)
	if err != nil {
		t.log.Debug("the source is not shown", "err", err)
	}
	if b == nil {
		return nil
	}
	return &sourceBound{b.DocketSchema, b.System, b.At.UTC()}
}

// heldBy are those who keep Docket's pruner from working.
func (t *teller) heldBy(ctx context.Context) (names []string) {
	holders, err := docket.PrunerHolders(ctx, t.observer.docket, t.db.DocketSchema)
	if err != nil {
		t.log.Debug("who holds the pruner off is not shown", "err", err)
	}
	for _, h := range holders {
		names = append(names, cmp.Or(oneLine(h.Application), "a session without a name"))
	}
	return names
}

// kept is what is known about the retention.
func (t *teller) kept() retentionReport {
	var r retentionReport
	if t.told == nil {
		r.Text = "RETENTION_EVENTS is not set here: how long until events are deleted is unknown"
		return r
	}
	r.None = t.told.Events == 0
	if !r.None {
		r.Told = seconds(t.told.Events)
	}
	v, known := t.policy()
	if !known {
		r.Text = "RETENTION_EVENTS is " + Retention(t.told.Events).String() + "; it is not compared with the table yet"
		return r
	}
	if !v.Empty {
		r.Observed = seconds(v.Observed)
	}
	r.Mismatch = string(v.Mismatch)
	r.Text, r.Hint = v.Text()
	return r
}

// unknown says why something is not known, and when it last was.
func (t *teller) unknown(url DatabaseURL, err error, known time.Time) *unknownReport {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = explainConnect(url, err)
	}
	err = explainDatabase(err)
	return &unknownReport{Error: oneLine(err.Error()), Since: timeOf(known), err: err}
}

func timeOf(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}
