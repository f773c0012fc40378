package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

const runHelp = `Export the events of every configured consumer until the process is asked to
stop. SIGTERM finishes the batch in flight within EXPORTER_SHUTDOWN_GRACE, gives
the consumers up, and exits 0; a second signal exits at once.

With --once it exports until every consumer is caught up and then exits 0. Ids
that may still appear stay open in the cursor, are reported, and are delivered
by the next run.`

// pipes lets a test wrap the parts of a pipeline before it runs.
type pipes struct {
	cursor func(exporter.Cursor) exporter.Cursor
	sink   func(exporter.Sink) exporter.Sink
}

func (p pipes) wrapCursor(c exporter.Cursor) exporter.Cursor {
	if p.cursor == nil {
		return c
	}
	return p.cursor(c)
}

func (p pipes) wrapSink(s exporter.Sink) exporter.Sink {
	if p.sink == nil {
		return s
	}
	return p.sink(s)
}

func newRunCommand(p *process) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Export until asked to stop",
		Long:    runHelp,
		Example: "  exporter run\n  exporter run --once",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(p.env)
			if err != nil {
				return err
			}
			defer limitMemory(c, p.env)()
			return run(cmd.Context(), c, once, p.logger(c.Log), p)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "export until caught up, then exit")
	return cmd
}

// run wires one process: pools, metrics, HTTP, and a supervisor per consumer.
func run(ctx context.Context, c Config, once bool, log *slog.Logger, p *process) error {
	e, err := newEngine(ctx, c, once, log)
	if err != nil {
		return err
	}
	defer e.close()
	e.pipes, e.out = p.pipes, p.stdout

	registry := prometheus.NewRegistry()
	e.register(registry)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var group errgroup.Group
	if addr := c.Exporter.listenAddr(once); addr != "" {
		server := &HTTPServer{
			Addr: addr, WebConfigFile: c.Exporter.WebConfigFile, Registry: registry,
			Live: e.live, Ready: e.ready, Remark: e.remark, Status: e.teller(), Log: log,
		}
		if err := server.Listen(); err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(serving) })
	}
	group.Go(func() error {
		defer stopServing()
		return e.run(ctx)
	})
	return group.Wait()
}

// engine is what the consumers of one process share.
type engine struct {
	config   Config
	once     bool
	log      *slog.Logger
	docket   *pgxpool.Pool
	export   *pgxpool.Pool
	renewal  *pgxpool.Pool
	store    *cursor.Store
	metrics  *exporter.Metrics
	observer *observer
	policy   *policyWatch
	guard    *guard
	pipes    pipes
	out      io.Writer

	health  health
	missing missing
	balance *balancer // nil with once
}

func newEngine(ctx context.Context, c Config, once bool, log *slog.Logger) (*engine, error) {
	e := &engine{config: c, once: once, log: log}
	consumers := int32(len(c.Consumers))
	for _, pool := range []struct {
		into **pgxpool.Pool
		url  DatabaseURL
		size int32
	}{
		{&e.docket, c.Database.Docket, consumers + 1},
		{&e.export, c.Database.Export, consumers + 1},
		{&e.renewal, c.Database.Export, 1},
	} {
		p, err := openPool(ctx, pool.url, pool.size)
		if err != nil {
			e.close()
			return nil, err
		}
		*pool.into = p
	}
	e.store = cursor.NewStore(e.export, e.renewal, c.Database.ExportSchema)
	e.observer = newObserver(e.store, e.docket, c.Database.DocketSchema, c.Exporter.Retention.Value(), e.filterOf, log)
	e.policy = newPolicyWatch(e.docket, c.Database.DocketSchema, c.Exporter.policy(), log)
	e.guard = e.newGuard()
	return e, nil
}

func (e *engine) close() { closePools(e.docket, e.export, e.renewal) }

// closePools closes those that are there.
func closePools(pools ...*pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, p := range pools {
			if p != nil {
				p.Close()
			}
		}
	}()
	select {
	case <-closed:
	case <-time.After(closeTime): // a server that does not answer must not hold the process
	}
}

// closeTime is how long closing connections may take.
const closeTime = 500 * time.Millisecond

// run prepares and then supervises the consumers until ctx ends or, with once,
// until all have caught up.
func (e *engine) run(ctx context.Context) error {
	if err := e.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	// Work outlives the signal by the grace, less what giving the leases up takes.
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		e.log.Info("stopping; a batch in flight may finish", "grace", e.config.Exporter.ShutdownGrace.Value())
		time.AfterFunc(e.config.Exporter.ShutdownGrace.Value()-releaseTime(e.config.Exporter.ShutdownGrace.Value()), func() {
			end(errGraceOver)
		})
	})()
	if !e.once {
		e.balance = newBalancer(e.store, e.config.Exporter, e.log)
		e.balance.announce(ctx)
		sharing := make(chan struct{})
		defer func() { <-sharing }()
		go func() {
			defer close(sharing)
			e.balance.run(ctx)
		}()
	}
	e.policy.look(ctx) // losses are judged by it
	watching := e.watchRetention(ctx)
	defer watching()
	errs := make([]error, len(e.config.Consumers))
	var group errgroup.Group
	for i, c := range e.config.Consumers {
		s := e.supervisor(c)
		group.Go(func() error {
			errs[i] = s.run(work, ctx.Done())
			return nil
		})
	}
	if !e.once {
		group.Go(func() error {
			e.backfills(ctx)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

var errGraceOver = errors.New("the time for finishing is over")

// releaseTime is the part of the grace that is kept for giving up the leases.
func releaseTime(grace time.Duration) time.Duration { return min(2*time.Second, grace/4) }

// live reports a consumer whose loop is stuck. A sink that is down, or a
// database that does not answer, is not that.
func (e *engine) live() error {
	return e.health.stuck(2*e.config.Exporter.StatementTimeout.Value() + time.Minute)
}

// teller tells what this process sees.
func (e *engine) teller() *teller {
	return &teller{
		observer: e.observer, export: e.export, db: e.config.Database, process: started("run", e.config.Exporter.Replica),
		told: &e.policy.policy, policy: e.policy.latest, guard: e.guard.status, waiting: e.health.prepared, log: e.log,
	}
}

// ready reports whether both databases answer, positions can be written, and
// everything run needs is there.
func (e *engine) ready(ctx context.Context) error {
	if err := e.health.prepared(); err != nil {
		return err
	}
	if err := isPrimary(ctx, e.docket, e.config.Database.Docket); err != nil {
		return err
	}
	return takesWrites(ctx, e.export, e.config.Database.Export)
}
