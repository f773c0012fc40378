package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
		return nil, usage(fmt.Errorf("the database URL %s", explainURL(err)))
	}
	c := config.ConnConfig
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity = 0
	c.DescriptionCacheCapacity = 0
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = applicationName
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	return config, nil
}

// explainConnect names the database by host and database only, and says what
// usually helps.
func explainConnect(url DatabaseURL, err error) error {
	return withHint(fmt.Errorf("connect to %s: %w", url, withoutURL(err)), connectHint(err))
}

// withoutURL drops the driver's description of the connection, which repeats
// user and database, and says only once what happened to several attempts at
// the same address.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		lines := strings.Split(e.Unwrap().Error(), "\n")
		return &connectError{strings.Join(slices.Compact(lines), "\n"), e.Unwrap()}
	}
	return err
}

type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.err }

func connectHint(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "28P01", "28000":
			return "check user and password in the URL, and the server's pg_hba.conf"
		case "3D000":
			return "check the database name in the URL"
		case "53300":
			return "raise max_connections, or stop clients that are not needed"
		}
		return ""
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("check the host name %q in the URL", e.Name)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return "check host and port in the URL, and that the server runs and lets this machine in"
	}
	return ""
}
