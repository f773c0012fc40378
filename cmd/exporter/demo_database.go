package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/internal/pgserver"
)

// demoDatabase is where the demo's tables are: a private server that goes away,
// or two schemas in a database of the user's.
type demoDatabase struct {
	cluster      *pgserver.Cluster // nil for the user's server
	url          DatabaseURL
	schema       string // of Docket's tables
	exportSchema string // of the exporter's
}

func openDemoDatabase(ctx context.Context, c DemoConfig) (*demoDatabase, error) {
	if !c.Database.IsZero() {
		if err := reachDatabase(ctx, c.Database); err != nil {
			return nil, err
		}
		name := "docket_demo_" + strings.ToLower(rand.Text()[:8])
		return &demoDatabase{url: c.Database, schema: name, exportSchema: name + "_export"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cluster, err := pgserver.Start(ctx, pgserver.Options{})
	if err != nil {
		return nil, err
	}
	return &demoDatabase{
		cluster: cluster, url: DatabaseURL{text: cluster.URL("postgres")}, schema: "docket", exportSchema: "docket_export",
	}, nil
}

// reachDatabase reports what is wrong with a given database before anything is
// made.
func reachDatabase(ctx context.Context, u DatabaseURL) error {
	conn, err := connect(ctx, u)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = serverVersion(ctx, conn)
	return err
}

// connect opens the connections of the writers, the naive reader and the lines.
func (d *demoDatabase) connect(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.url.Reveal())
	if err != nil {
		return nil, usage(fmt.Errorf("DEMO_DATABASE_URL %s", explainURL(err)))
	}
	const writers, others = 16, 3
	config.MaxConns = writers + others
	config.ConnConfig.RuntimeParams["application_name"] = demoWriterApp
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, explainConnect(d.url, err)
	}
	return pool, nil
}

// describe says where it is.
func (d *demoDatabase) describe() string {
	if d.cluster != nil {
		return fmt.Sprintf("%s, temporary, in %s", shownURL(d.url), d.cluster.Dir())
	}
	return fmt.Sprintf("%s, schemas %s and %s (drop them yourself should the demo be killed)", d.url, d.schema, d.exportSchema)
}

// shownURL is a URL to connect with; only a private server's has no password.
func shownURL(u DatabaseURL) string {
	parsed, err := url.Parse(u.Reveal())
	if err != nil {
		return u.String()
	}
	return parsed.Redacted()
}

// remove deletes what openDemoDatabase and the demo made.
func (d *demoDatabase) remove(ctx context.Context) error {
	if d.cluster != nil {
		return d.cluster.Stop(ctx)
	}
	conn, err := connect(ctx, d.url)
	if err != nil {
		return fmt.Errorf("drop schemas %s and %s: %w", d.schema, d.exportSchema, err)
	}
	defer conn.Close(ctx)
	var failed error
	for _, schema := range []string{d.schema, d.exportSchema} {
		if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE"); err != nil {
			failed = errors.Join(failed, fmt.Errorf("drop schema %s: %w", schema, err))
		}
	}
	return failed
}
