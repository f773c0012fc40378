package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

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

// readLag returns the state of every consumer in the database, whoever owns
// it, so that the graphs go on when an owner dies. The filter of a consumer
// that this process does not configure is unknown; its backlog counts all rows.
func (e *engine) readLag(ctx context.Context) ([]lag.Consumer, error) {
	known, err := e.store.List(ctx)
	if err != nil {
		return nil, err
	}
	consumers := make([]lag.Consumer, len(known))
	for i, k := range known {
		consumers[i] = lag.Consumer{
			Name: k.Name, HighID: k.Position.High, OpenHoles: len(k.Position.Holes),
			Owned: k.LeaseLive, Paused: k.Paused != nil,
		}
		var filters docket.Filters
		for _, c := range e.config.Consumers {
			if c.Name == k.Name {
				if filters, err = filtersOf(c); err != nil {
					return nil, err
				}
			}
		}
		b, err := docket.ReadBacklog(ctx, e.docket, e.config.Database.DocketSchema, k.Position, filters)
		if err != nil {
			e.log.Debug("the backlog is unknown", "consumer", k.Name, "err", err)
			continue
		}
		consumers[i].Backlog = &lag.Backlog{Now: b.Now, Events: b.Events, Exact: b.Exact, Oldest: b.Oldest}
	}
	return consumers, nil
}
