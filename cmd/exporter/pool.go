package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	applicationName = "docket-exporter"
	connectTimeout  = 10 * time.Second

	// Connections are replaced now and then so that a changed DNS answer, after
	// a failover for example, is noticed without an error.
	connectionLifetime = 10 * time.Minute
)

// openPool opens a pool of at most size connections. It connects when it is
// first used, so it fails only for a URL that cannot be read.
func openPool(ctx context.Context, url DatabaseURL, size int32) (*pgxpool.Pool, error) {
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = size
	config.MinConns = 0
	config.MinIdleConns = 0
	config.MaxConnLifetime = connectionLifetime
	config.MaxConnLifetimeJitter = connectionLifetime / 10
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, explainConnect(url, err)
	}
	return pool, nil
}

// connect opens one connection outside any pool.
func connect(ctx context.Context, url DatabaseURL) (*pgx.Conn, error) {
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, explainConnect(url, err)
	}
	return conn, nil
}

// poolConfig sets up connections that also work through a pooler which gives
// every transaction another backend: no prepared statements and no startup
// parameter but the application's name.
func poolConfig(url DatabaseURL) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil {
		return nil, usage(fmt.Errorf("%s %s", cmp.Or(url.variable, "the database URL"), explainURL(err)))
	}
	c := config.ConnConfig
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity = 0
	c.DescriptionCacheCapacity = 0
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = applicationName
	}
	c.RuntimeParams["client_encoding"] = "UTF8" // identities are made from texts
	c.RuntimeParams["datestyle"] = "ISO"        // times are read as texts; poolers pass both on
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	return config, nil
}
