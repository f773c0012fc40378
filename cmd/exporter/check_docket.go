package main

import (
	"context"
	"errors"

	"github.com/docket-exporter/exporter/sources/docket"
)

const docketSubject = "Docket database"

// checkDocket looks at the database that Docket writes to.
func checkDocket(ctx context.Context, c Config, found *findings) {
	conn, err := connect(ctx, c.Database.Docket)
	if err != nil {
		found.failed(docketSubject, err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found.ok(docketSubject, "reached "+c.Database.Docket.String())
	schema := c.Database.DocketSchema
	if err := docket.Verify(ctx, conn, schema); errors.Is(err, docket.ErrNoTable) {
		found.failed(docketSubject, usage(err)) // most likely another schema is meant
		return
	}
	list, err := docket.Check(ctx, conn, schema)
	found.take(docketSubject, list)
	if err != nil {
		found.failed(docketSubject, explainDatabase(err))
		return
	}
	if found.exitCode() != exitOK {
		return // a table that cannot be read cannot be compared either
	}
	list, err = docket.CheckRetention(ctx, conn, schema, c.Exporter.policy())
	found.take(docketSubject, list)
	if err != nil {
		found.failed(docketSubject, explainDatabase(err))
	}
}
