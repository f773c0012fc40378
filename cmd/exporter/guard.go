package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-exporter/exporter/lag"
	"github.com/docket-exporter/exporter/retention"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	guardInterval = 2 * time.Second // between looks at the headroom
	guardRetry    = time.Minute     // between tries of a connection that was refused
	guardTimeout  = 10 * time.Second
)

// guard holds Docket's pruner off while a consumer has little headroom left.
// Any number of replicas may do so at once. What it shows is safe for
// concurrent use.
type guard struct {
	mode      GuardMode
	rule      retention.GuardRule
	direct    DatabaseURL
	schema    string
	system    func(context.Context) (int64, error) // identifier of the server that is read, 0 when it is not known
	consumers func() []lag.Consumer
	log       *slog.Logger

	hold  *docket.PrunerHold
	retry time.Time // not before

	mu        sync.Mutex
	state     *retention.Guard
	shown     guardStatus
	total     time.Duration // held, but for the hold that is had
	heldSince time.Time     // of the hold that is had; zero without one
}

// guardStatus is what people see of a process's guard.
type guardStatus struct {
	Mode     GuardMode            `json:"mode"`
	State    retention.GuardState `json:"state"`
	Since    time.Time            `json:"since,omitzero"`     // of the state
	Consumer string               `json:"consumer,omitempty"` // with the least headroom
	Headroom *float64             `json:"headroom_seconds,omitempty"`
	Below    float64              `json:"below_seconds"`
	Refused  string               `json:"refused,omitempty"` // why the hold cannot be had, though it is wanted
}

// newGuard makes the guard of this process.
func (e *engine) newGuard() *guard {
	c := &e.config.Exporter
	rule := c.rule(c.Retention.Value())
	return &guard{
		mode: c.Guard, rule: rule, direct: e.config.Database.DocketDirect, schema: e.config.Database.DocketSchema, log: e.log,
		state:     retention.NewGuard(rule),
		consumers: func() []lag.Consumer { return e.observer.watch.Latest().Consumers },
		system: func(ctx context.Context) (int64, error) {
			bound, err := e.store.Source(ctx)
			if bound == nil {
				return 0, err
			}
			return bound.System, nil
		},
	}
}

// watchRetention watches the policy and the headroom beside the consumers. The
// function it returns ends that and waits for it.
func (e *engine) watchRetention(ctx context.Context) (end func()) {
	if e.once {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { e.policy.run(ctx) })
	if e.guard.mode == GuardHold {
		watching.Go(func() { e.guard.run(ctx) })
	}
	return func() {
		cancel()
		watching.Wait()
	}
}

// run watches the headroom until ctx ends, and lets the pruner work then.
func (g *guard) run(ctx context.Context) {
	for {
		g.step(ctx, time.Now())
		if !waitFor(ctx, guardInterval) {
			break
		}
	}
	g.release(context.WithoutCancel(ctx), "the process stops")
}

// step looks once, and takes or gives up the hold.
func (g *guard) step(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	name, least, known := leastHeadroom(g.consumers(), g.rule.Retention)
	g.mu.Lock()
	want := g.state.Step(now, least, known)
	state, _ := g.state.State()
	g.shown.Consumer, g.shown.Headroom = name, nil
	if known {
		seconds := least.Seconds()
		g.shown.Headroom = &seconds
	}
	if !want {
		g.shown.Refused = ""
	}
	g.mu.Unlock()
	switch {
	case want && g.hold == nil && !now.Before(g.retry):
		g.take(ctx, now, name, least)
	case want && g.hold != nil:
		if err := g.hold.Check(ctx); err != nil {
			g.log.Warn("Docket's pruner is not held off any more; taking the hold again", "err", err)
			g.end(ctx, now)
			g.mu.Lock()
			g.state.Lost(now)
			g.mu.Unlock()
		}
	case !want && g.hold != nil && state == retention.GuardResting:
		g.release(ctx, "it was held for RETENTION_GUARD_MAX; the pruner may work for as long")
	case !want && g.hold != nil:
		g.release(ctx, "every consumer has enough headroom again")
	}
}

// leastHeadroom returns the consumer whose next event is deleted first.
func leastHeadroom(consumers []lag.Consumer, kept time.Duration) (name string, least time.Duration, known bool) {
	for i := range consumers {
		left, ok := consumers[i].Headroom(kept)
		if ok && (!known || left < least) {
			name, least, known = consumers[i].Name, left, true
		}
	}
	return name, least, known
}

// take tries to get the hold.
func (g *guard) take(ctx context.Context, now time.Time, consumer string, least time.Duration) {
	hold, err := g.open(ctx)
	switch {
	case errors.Is(err, docket.ErrPrunerAtWork):
		g.log.Debug("the pruner is held off once its pass is over", "err", err)
		return
	case err != nil:
		g.retry = now.Add(guardRetry)
		g.refuse(err.Error())
		g.log.Error("Docket's pruner cannot be held off although a consumer may lose events", "consumer", consumer,
			"headroom", retention.Format(least), "err", err, "hint", "DOCKET_DIRECT_URL must lead to Docket's database without a pooler or proxy in between")
		return
	}
	already, err := hold.Already(ctx)
	if err != nil {
		g.log.Debug("the longest hold is counted from now", "err", err)
	}
	g.hold = hold
	g.refuse("")
	g.mu.Lock()
	g.state.Held(now, already)
	g.heldSince = now
	g.mu.Unlock()
	g.log.Warn("holding Docket's pruner off: all pruning of the schema pauses, of events, finished runs and graphs",
		"schema", g.schema, "consumer", consumer, "headroom", retention.Format(least),
		"below", retention.Format(g.rule.Below), "at_most", retention.Format(g.rule.Max))
}

func (g *guard) open(ctx context.Context) (*docket.PrunerHold, error) {
	system, err := g.system(ctx)
	if err != nil {
		return nil, err
	}
	config, err := poolConfig(g.direct)
	if err != nil {
		return nil, err
	}
	connect := config.ConnConfig
	connect.RuntimeParams["application_name"] = applicationName + " guard"
	connect.DefaultQueryExecMode = pgx.QueryExecModeExec
	hold, err := docket.HoldPruner(ctx, connect, g.schema, system)
	if err != nil && !errors.Is(err, docket.ErrPrunerAtWork) {
		return nil, explainConnect(g.direct, err)
	}
	return hold, err
}

func (g *guard) refuse(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown.Refused = why
}

// release gives the hold up, if it is had.
func (g *guard) release(ctx context.Context, why string) {
	if g.hold == nil {
		return
	}
	held := g.end(ctx, time.Now())
	g.log.Info("Docket's pruner may work again", "why", why, "held", retention.Format(held))
}

// end gives the hold up and returns how long it was had.
func (g *guard) end(ctx context.Context, now time.Time) time.Duration {
	if err := g.hold.Release(ctx); err != nil {
		g.log.Debug("the hold ends with its session", "err", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	held := now.Sub(g.heldSince)
	g.hold = nil
	g.total += held
	g.heldSince = time.Time{}
	return held
}

// status is what people see.
func (g *guard) status() guardStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shown
	s.Mode, s.Below = cmp.Or(g.mode, GuardOff), g.rule.Below.Seconds()
	s.State, s.Since = g.state.State()
	return s
}

// sayGuard says that somebody keeps Docket's pruner from working.
func (p *process) sayGuard(ctx context.Context, pool *pgxpool.Pool, schema string) {
	holders, err := docket.PrunerHolders(ctx, pool, schema)
	if err != nil || len(holders) == 0 {
		return // the lag says what is wrong with the database
	}
	fmt.Fprintf(p.stderr, "Docket's pruner is held off by %s (%s): all pruning of schema %s pauses\n",
		plural(int64(len(holders)), "session"), cmp.Or(oneLine(holders[0].Application), "unknown"), schema)
}

var (
	guardHeldDesc = prometheus.NewDesc("docket_exporter_retention_guard_held",
		"1 while this process keeps Docket's pruner from working.", nil, nil)
	guardTotalDesc = prometheus.NewDesc("docket_exporter_retention_guard_held_seconds_total",
		"Seconds for which this process has kept Docket's pruner from working.", nil, nil)
	guardRefusedDesc = prometheus.NewDesc("docket_exporter_retention_guard_refused",
		"1 while Docket's pruner should be held off and cannot be.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g *guard) Describe(ch chan<- *prometheus.Desc) {
	ch <- guardHeldDesc
	ch <- guardTotalDesc
	ch <- guardRefusedDesc
}

// Collect implements prometheus.Collector.
func (g *guard) Collect(ch chan<- prometheus.Metric) {
	refused := g.status().Refused != ""
	g.mu.Lock()
	held, total := !g.heldSince.IsZero(), g.total
	if held {
		total += time.Since(g.heldSince)
	}
	g.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(guardHeldDesc, prometheus.GaugeValue, oneIf(held))
	ch <- prometheus.MustNewConstMetric(guardTotalDesc, prometheus.CounterValue, total.Seconds())
	ch <- prometheus.MustNewConstMetric(guardRefusedDesc, prometheus.GaugeValue, oneIf(refused))
}
