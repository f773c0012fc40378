package clickhouse

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/chdb"
	"github.com/docket-exporter/exporter/internal/chserver"
)

// The servers of this test binary, which TestMain starts and stops.
var (
	newServer *chdb.Server     // 26.7, over HTTP
	oldServer *chserver.Server // 18.16, over the native protocol
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var g errgroup.Group
	g.Go(func() (err error) { newServer, err = chdb.Start(ctx); return err })
	g.Go(func() (err error) { oldServer, err = chserver.Start(ctx); return err })
	err = g.Wait()
	if err == nil {
		code = m.Run()
	}
	if newServer != nil {
		g.Go(newServer.Stop)
	}
	if oldServer != nil {
		g.Go(oldServer.Stop)
	}
	if stopped := g.Wait(); err == nil {
		err = stopped
	}
	return code, err
}

// open opens a sink that is closed when the test ends.
func open(t *testing.T, cfg Config) *Sink {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func deliver(t *testing.T, s *Sink, b exporter.Batch) {
	t.Helper()
	if err := s.Deliver(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// connect opens a pool that is closed when the test ends.
func connect(t *testing.T, dsn string) driver.Conn {
	t.Helper()
	o, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := driver.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func exec(t *testing.T, conn driver.Conn, statement string) {
	t.Helper()
	if err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

func number(t *testing.T, conn driver.Conn, query string) uint64 {
	t.Helper()
	var n uint64
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// tableOf is a table name of the test's own.
func tableOf(t *testing.T, suffix string) string {
	return strings.NewReplacer("/", "_", " ", "_").Replace(t.Name() + "_" + suffix)
}

// ownTable is a table as a user of an old server may have made it: no
// LowCardinality, no DateTime64, texts for the times.
func ownTable(t *testing.T, conn driver.Conn, name string) {
	exec(t, conn, "CREATE TABLE `"+name+"` ("+
		"run_id String, seq UInt64, event_id Int64, type String, step Int32,"+
		"node_id Nullable(String), channel_id Nullable(String), task_id Nullable(String),"+
		"tenant_id Nullable(String), graph_id Nullable(String), graph_hash Nullable(String),"+
		"payload String, metadata String, occurred_at String, inserted_at String,"+
		"idempotency_key FixedString(64), day Date DEFAULT today()"+
		") ENGINE = ReplacingMergeTree ORDER BY (run_id, seq, event_id)")
}
