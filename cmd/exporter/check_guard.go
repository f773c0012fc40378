package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

const guardSubject = "RETENTION_GUARD"

// checkGuard takes the hold on Docket's pruner for a moment, where it is
// configured: it wants a connection that is direct.
func checkGuard(ctx context.Context, c Config, found *findings) {
	if c.Exporter.Guard != GuardHold {
		return
	}
	url := c.Database.DocketDirect
	config, err := poolConfig(url)
	if err != nil {
		found.failed(guardSubject, err)
		return
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	hold, err := docket.HoldPruner(ctx, config.ConnConfig, c.Database.DocketSchema, 0)
	switch {
	case errors.Is(err, docket.ErrPrunerAtWork):
		found.ok(guardSubject, "the connection is direct; the pruner is at work just now")
	case errors.Is(err, docket.ErrNotDirect):
		found.add(finding{
			Level: exporter.LevelFail, Subject: guardSubject, Text: "the pruner cannot be held off: " + err.Error(),
			Hint: "set DOCKET_DIRECT_URL to Docket's database itself, without a pooler or a proxy", code: exitPerson,
		})
	case err != nil:
		found.failed(guardSubject, explainConnect(url, err))
	default:
		if err := hold.Release(ctx); err != nil {
			found.failed(guardSubject, err)
			return
		}
		found.ok(guardSubject, "the pruner can be held off")
	}
}
