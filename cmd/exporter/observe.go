package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/lag"
	"github.com/docket-exporter/exporter/sources/docket"
)

// buildInfo is a gauge that is always 1 and says what runs.
func buildInfo() prometheus.Collector {
	b := readBuild()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "docket_exporter", Name: "build_info", Help: "Always 1; its labels say what runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	}, func() float64 { return 1 })
}

// observer reads the state of every consumer in the database, whoever owns it,
// so that the graphs go on when an owner dies. A finished backfill is not one.
type observer struct {
	store  *cursor.Store
	docket *pgxpool.Pool
	schema string // of Docket's tables
	watch  *lag.Watch

	// configured are the filters that this process gives a consumer, used until
	// the consumer's owner has told its own.
	configured func(consumer string) (docket.Filters, bool)

	log *slog.Logger

	first int // whose backlog is read first; only one read goes on at a time

	mu      sync.Mutex
	seen    []observed // by the last read
	changed error      // at the last read: why Docket's database is not the one the positions are of
}

// observed is all that is known of one consumer.
type observed struct {
	Status cursor.Status
	Scope  cursor.Scope
	Lag    lag.Consumer
	Err    error // why the backlog is unknown
}

func newObserver(store *cursor.Store, pool *pgxpool.Pool, schema string, retention time.Duration,
	configured func(string) (docket.Filters, bool), log *slog.Logger,
) *observer {
	o := &observer{store: store, docket: pool, schema: schema, configured: configured, log: log}
	o.watch = lag.NewWatch(o.read, retention, log)
	return o
}

// latest returns what is known of all consumers, by name. A read that many
// share at one time is at most half a minute old.
func (o *observer) latest() ([]observed, lag.Reading) {
	reading := o.watch.Latest()
	if reading.Err != nil {
		return nil, reading
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	forecasts := make(map[string]*lag.Forecast, len(reading.Consumers))
	for _, c := range reading.Consumers {
		forecasts[c.UID] = c.Forecast
	}
	all := make([]observed, len(o.seen))
	for i, s := range o.seen {
		s.Lag.Forecast = forecasts[s.Lag.UID]
		all[i] = s
	}
	return all, reading
}

// sourceChanged says why Docket's database is not the one that the positions
// are of; nil when it is, or is not known to be another one.
func (o *observer) sourceChanged() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// read is one look at both databases.
func (o *observer) read(ctx context.Context) ([]lag.Consumer, error) {
	known, err := o.store.List(ctx)
	if err != nil {
		return nil, err
	}
	scopes, err := o.store.Scopes(ctx)
	if err != nil {
		return nil, err
	}
	var seen []observed
	for _, k := range known {
		if scope, there := scopes[k.UID]; there && scope.Finished == nil { // else it was removed at this moment, or is done
			seen = append(seen, observed{Status: k, Scope: scope, Lag: consumerOf(&k, &scope)})
		}
	}
	changed := sameSource(ctx, o.store, o.docket, o.schema)
	if isChanged(changed) {
		for i := range seen {
			seen[i].Err = changed // what is read there says nothing of these consumers
		}
	} else {
		changed = nil
		o.readBacklogs(ctx, seen)
	}
	consumers := make([]lag.Consumer, len(seen))
	for i := range seen {
		consumers[i] = seen[i].Lag
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen, o.changed = seen, changed
	return consumers, nil
}

// readBacklogs fills in how far the consumers are behind. Where time is too
// short for all of them it begins the next time with those it did not reach.
func (o *observer) readBacklogs(ctx context.Context, all []observed) {
	first, inTime := o.first, true
	for i := range all {
		at := (first + i) % len(all)
		s := &all[at]
		if s.Lag.Backlog, s.Err = o.backlog(ctx, &s.Status, &s.Scope); s.Err == nil {
			continue
		}
		o.log.Debug("the backlog is unknown", "consumer", s.Status.Name, "err", s.Err)
		if inTime && ctx.Err() != nil {
			o.first, inTime = at, false
			if i == 0 {
				o.first++ // it alone takes too long: the others first
			}
		}
	}
}

var errFilterUnknown = errors.New("no owner has told yet which events it delivers")

func (o *observer) backlog(ctx context.Context, k *cursor.Status, scope *cursor.Scope) (*lag.Backlog, error) {
	rest := docket.Rest{After: k.Position}
	if scope.Until != nil {
		rest.Until = scope.Until.High
	}
	if scope.Filter != nil {
		var err error
		if rest.Filters, err = filtersFrom(scope.Filter); err != nil {
			return nil, err
		}
	} else if f, ok := o.configured(k.Name); ok {
		rest.Filters = f
	} else {
		return nil, errFilterUnknown
	}
	b, err := docket.ReadBacklog(ctx, o.docket, o.schema, rest)
	if err != nil {
		return nil, err
	}
	return &lag.Backlog{Now: b.Now, Head: b.Head, Events: b.Events, Exact: b.Exact, Oldest: b.Oldest}, nil
}

// consumerOf takes from a consumer's row what is shown of it.
func consumerOf(k *cursor.Status, scope *cursor.Scope) lag.Consumer {
	since := func(at *time.Time) *time.Duration {
		if at == nil {
			return nil
		}
		d := k.Now.Sub(*at)
		return &d
	}
	c := lag.Consumer{
		UID: k.UID, Name: k.Name, Backfill: k.Kind == cursor.Backfill, HighID: k.Position.High, OpenHoles: len(k.Position.Holes),
		Owned: k.LeaseLive, Epoch: k.Epoch, SincePoll: since(k.PolledAt), SinceProgress: since(progressAt(k)),
		EventsAccepted: k.EventsAccepted, Filtered: scope.Filter == nil || !scope.Filter.All(),
		DeadLettersOpen: k.DeadLettersOpen, DeadLettersHeld: k.DeadLettersHeld, DeadLetterOldest: since(k.DeadLetterOldest),
		LossesOpen: k.Losses, LostEvents: scope.LostEvents, OldestHole: new(time.Duration),
	}
	if c.OpenHoles > 0 {
		c.OldestHole = nil // unknown until the owner's next heartbeat, and while nobody looks
		if k.LeaseLive {
			c.OldestHole = since(k.OldestHoleAt)
		}
	}
	if k.Paused != nil {
		c.Paused = k.Paused.Reason
	}
	switch {
	case k.LeaseLive:
	case k.LeaseUntil != nil:
		c.Unowned = k.Now.Sub(*k.LeaseUntil)
	default:
		c.Unowned = k.Now.Sub(k.UpdatedAt) // giving a consumer up is the last write of an owner
	}
	return c
}

// progressAt is when the consumer last got somewhere; a new one counts from
// the time it was made.
func progressAt(k *cursor.Status) *time.Time {
	at := k.CreatedAt
	for _, t := range []*time.Time{k.AcceptedAt, k.CaughtUpAt} {
		if t != nil && t.After(at) {
			at = *t
		}
	}
	return &at
}

// filtersFrom are the filters of a consumer as its owner told them.
func filtersFrom(f *cursor.Filter) (docket.Filters, error) {
	return filtersOf(ConsumerConfig{Types: f.Types, Tenants: f.Tenants, Graphs: f.Graphs, Runs: f.Runs})
}

// tellFilter lets every process know which events the consumer delivers.
func (s *supervisor) tellFilter(ctx context.Context, own *cursor.Cursor) {
	c := s.consumer
	if err := own.SetFilter(ctx, cursor.Filter{Types: c.Types, Tenants: c.Tenants, Graphs: c.Graphs, Runs: c.Runs}); err != nil {
		s.log.Warn("the filter was not noted; the lag may count other events until the next claim", "err", err)
	}
}

// register adds everything that run shows to a registry.
func (e *engine) register(registry prometheus.Registerer) {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	e.metrics = exporter.NewMetrics(registry)
	registry.MustRegister(lag.NewCollector(e.observer.watch), e.policy, e.guard, unverifiedSinks(e.config.Consumers))
}

// filterOf is the filter of a consumer that this process configures.
func (e *engine) filterOf(consumer string) (docket.Filters, bool) {
	for _, c := range e.config.Consumers {
		if c.Name == consumer {
			f, err := filtersOf(c)
			return f, err == nil
		}
	}
	return docket.Filters{}, false
}
