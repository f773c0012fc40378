package main

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docket-exporter/exporter/internal/chdb"
	"github.com/docket-exporter/exporter/internal/chserver"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
)

// findServers says what to install before anything is measured.
func (s settings) findServers() error {
	if !s.wants("clickhouse") {
		return nil
	}
	_, library := chdb.FindLibrary()
	_, server := chserver.Find()
	if err := errors.Join(library, server); err != nil {
		return fmt.Errorf("the part clickhouse cannot run (BENCH_ONLY names the parts that shall): %w", err)
	}
	return nil
}

// warehouse is a running ClickHouse.
type warehouse struct {
	name string
	dsn  string
	bare string // the DSN of the bare insert
	ddl  func(table string) string
	stop func() error
	pid  func() int
	conn driver.Conn
}

// openLibrary starts ClickHouse 26.7 with the exporter's default table.
func openLibrary(ctx context.Context) (*warehouse, error) {
	server, err := chdb.Start(ctx)
	if err != nil {
		return nil, err
	}
	return connect(&warehouse{
		name: "ClickHouse 26.7", dsn: server.DSN(), stop: server.Stop, pid: server.PID,
		bare: server.DSN() + "?async_insert=0", // newer servers have it on; the exporter turns it off, too
		ddl:  func(table string) string { return clickhouse.DDL(table, clickhouse.DDLOptions{}) },
	})
}

// openOldServer starts Debian's ClickHouse with a user's own table, of types
// that it knows.
func openOldServer(ctx context.Context) (*warehouse, error) {
	server, err := chserver.Start(ctx)
	if err != nil {
		return nil, err
	}
	return connect(&warehouse{
		name: "ClickHouse 18.16", dsn: server.DSN(), bare: server.DSN(), stop: server.Stop, pid: server.PID,
		ddl: func(table string) string {
			return "CREATE TABLE " + table + " (run_id String, seq Int64, event_id Int64, type String, step Int32," +
				" node_id Nullable(String), channel_id Nullable(String), task_id Nullable(String)," +
				" tenant_id Nullable(String), graph_id Nullable(String), graph_hash Nullable(String)," +
				" payload String, metadata String, occurred_at DateTime, inserted_at DateTime)" +
				" ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(occurred_at) ORDER BY (run_id, seq, event_id)"
		},
	})
}

func connect(w *warehouse) (*warehouse, error) {
	conn, err := openDriver(w.dsn)
	if err != nil {
		return nil, errors.Join(err, w.stop())
	}
	w.conn = conn
	return w, nil
}

// openDriver connects as the exporter does.
func openDriver(dsn string) (driver.Conn, error) {
	o, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("read ClickHouse's DSN: %w", err)
	}
	o.Compression = &driver.Compression{Method: driver.CompressionLZ4}
	conn, err := driver.Open(o)
	if err != nil {
		return nil, fmt.Errorf("connect to ClickHouse: %w", err)
	}
	return conn, nil
}

func (w *warehouse) close() error { return errors.Join(w.conn.Close(), w.stop()) }

// during runs a process and adds what the server took meanwhile.
func (w *warehouse) during(run func() (usage, error)) (usage, error) {
	before, err := processCPU(w.pid())
	if err != nil {
		return usage{}, err
	}
	u, err := run()
	if err != nil {
		return u, err
	}
	after, err := processCPU(w.pid())
	u.Sink = after - before
	return u, err
}

func (w *warehouse) create(ctx context.Context, table string) error {
	if err := w.conn.Exec(ctx, w.ddl(table)); err != nil {
		return fmt.Errorf("create table %s: %w", table, err)
	}
	return nil
}

// settle verifies that a table holds every event once, and drops it, so that no
// merge of its parts weighs on the next turn.
func (w *warehouse) settle(ctx context.Context, table string, events int) error {
	var rows, distinct uint64
	if err := w.conn.QueryRow(ctx, "SELECT count(), uniqExact(run_id, seq, event_id) FROM "+table).Scan(&rows, &distinct); err != nil {
		return fmt.Errorf("count table %s: %w", table, err)
	}
	if rows != uint64(events) || distinct != rows {
		return fmt.Errorf("table %s holds %d rows of %d events, for %d events", table, rows, distinct, events)
	}
	if err := w.conn.Exec(ctx, "DROP TABLE "+table); err != nil {
		return fmt.Errorf("drop table %s: %w", table, err)
	}
	return nil
}
