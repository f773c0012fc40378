package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/lag"
	"github.com/docket-exporter/exporter/migrations"
	"github.com/docket-exporter/exporter/sources/docket"
)

const monitorHelp = `Show how far all consumers are at EXPORTER_HTTP_ADDR until asked to stop, as
metrics and as a page, and do nothing else: it runs no consumer and writes
nothing. The figures come from the databases, so they go on when every process
that exports has died.

It needs the database variables and RETENTION_EVENTS, and ignores those of
consumers. Its role may be one that only reads:
exporter migrate --print-monitor-grants prints what it needs.`

func newMonitorCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:     "monitor",
		Short:   "Serve metrics and status page of all consumers, and export nothing",
		Long:    monitorHelp,
		Example: "  exporter monitor",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, c, log, err := loadMonitor(p.env)
			if err != nil {
				return err
			}
			if c.HTTPAddr == "" {
				return usage(withHint(errors.New("monitor does nothing but serve EXPORTER_HTTP_ADDR, which is off"), "set it to host:port, such as 127.0.0.1:9464"))
			}
			return monitorUntil(cmd.Context(), db, c, p.logger(log))
		},
	}
}

// monitorUntil serves until ctx ends. Databases may be away and come back.
func monitorUntil(ctx context.Context, db DatabaseConfig, c WatchConfig, log *slog.Logger) error {
	m, err := newMonitor(ctx, db, c, log)
	if err != nil {
		return err
	}
	defer closePools(m.docket, m.export)
	registry := prometheus.NewRegistry()
	m.register(registry)
	server := &HTTPServer{
		Addr: c.HTTPAddr, WebConfigFile: c.WebConfigFile, Registry: registry,
		Live: func() error { return nil }, Ready: m.ready, Status: m.teller(), Log: log,
	}
	if err := server.Listen(); err != nil {
		return err
	}
	go m.policy.run(ctx)
	return server.Serve(ctx)
}

// monitor is a process that only watches.
type monitor struct {
	db       DatabaseConfig
	docket   *pgxpool.Pool
	export   *pgxpool.Pool
	observer *observer
	policy   *policyWatch
}

func newMonitor(ctx context.Context, db DatabaseConfig, c WatchConfig, log *slog.Logger) (*monitor, error) {
	const connections = 2 // one that reads, one for /readyz
	export, err := openPool(ctx, db.Export, connections)
	if err != nil {
		return nil, err
	}
	source, err := openPool(ctx, db.Docket, connections)
	if err != nil {
		export.Close()
		return nil, err
	}
	none := func(string) (docket.Filters, bool) { return docket.Filters{}, false }
	store := cursor.NewStore(export, nil, db.ExportSchema)
	return &monitor{
		db: db, docket: source, export: export,
		observer: newObserver(store, source, db.DocketSchema, c.Retention.Value(), none, log),
		policy:   newPolicyWatch(source, db.DocketSchema, c.policy(), log),
	}, nil
}

// register adds everything that monitor shows to a registry.
func (m *monitor) register(registry prometheus.Registerer) {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	registry.MustRegister(lag.NewCollector(m.observer.watch), m.policy)
}

// teller tells what monitor sees.
func (m *monitor) teller() *teller {
	return &teller{
		observer: m.observer, db: m.db, process: started("monitor", ""), told: &m.policy.policy, policy: m.policy.latest, log: m.policy.log,
	}
}

// ready reports whether both databases answer what monitor asks.
func (m *monitor) ready(ctx context.Context) error {
	if err := m.export.Ping(ctx); err != nil {
		return explainConnect(m.db.Export, err)
	}
	if err := migrations.Check(ctx, m.export, m.db.ExportSchema); err != nil {
		return explainDatabase(err)
	}
	return isPrimary(ctx, m.docket, m.db.Docket)
}
