package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
)

// consumer is the name of the consumer in every measurement.
const consumer = "bench"

// bed is what all measurements stand on: a server, and a directory for files.
type bed struct {
	settings
	out     io.Writer
	cluster *pgserver.Cluster
	pool    *pgxpool.Pool
	dir     string
	loaded  map[string]bool // schemas that hold their rows
	exports int             // schemas of the exporter made so far
}

// openBed starts a server that makes every commit durable.
func openBed(ctx context.Context, s settings, out io.Writer) (*bed, error) {
	b := &bed{settings: s, out: out, loaded: map[string]bool{}}
	var err error
	if b.dir, err = os.MkdirTemp("", "exporter-bench-"); err != nil {
		return nil, fmt.Errorf("make directory for exports: %w", err)
	}
	b.cluster, err = pgserver.Start(ctx, pgserver.Options{
		Durable:  true,
		Settings: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"},
	})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.pool, err = pgxpool.New(ctx, b.url()); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to server: %w", err), b.close())
	}
	return b, nil
}

func (b *bed) close() error {
	var errs []error
	if b.pool != nil {
		b.pool.Close()
	}
	if b.cluster != nil {
		errs = append(errs, b.cluster.Stop(context.Background()))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

func (b *bed) url() string { return b.cluster.URL("postgres") }

func (b *bed) say(format string, args ...any) {
	fmt.Fprintf(b.out, format+"\n", args...)
}

// load fills a schema once, in pieces that bound this process's memory, and
// leaves the table as a busy server would have it: vacuumed, and cached as far
// as memory goes.
func (b *bed) load(ctx context.Context, schema string, events, piece int, o docketsim.LoadOptions) error {
	if b.loaded[schema] {
		return nil
	}
	began := time.Now()
	if err := docketsim.Install(ctx, b.pool, schema); err != nil {
		return err
	}
	if err := b.grow(ctx, schema, events, piece, o); err != nil {
		return err
	}
	b.loaded[schema] = true
	b.say("%d events loaded into schema %s in %s", events, schema, time.Since(began).Round(time.Millisecond))
	return nil
}

// grow adds rows to a schema and settles it.
func (b *bed) grow(ctx context.Context, schema string, events, piece int, o docketsim.LoadOptions) error {
	for left := events; left > 0; {
		n := min(left, piece)
		if left-n < 3 { // a run has at least 3 events
			n = left
		}
		o.Seed++
		if err := docketsim.Load(ctx, b.pool, schema, n, o); err != nil {
			return err
		}
		left -= n
	}
	for _, sql := range []string{
		"VACUUM ANALYZE " + schema + ".docket_runs", "VACUUM ANALYZE " + schema + ".docket_events", "CHECKPOINT",
		"SELECT count(*), sum(octet_length(metadata)) FROM " + schema + ".docket_events",
		"SELECT count(graph_hash) FROM " + schema + ".docket_runs",
	} {
		if _, err := b.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settle schema %s: %w", schema, err)
		}
	}
	return nil
}

// export is a fresh start of the exporter: its own tables, and a directory.
type export struct {
	schema string
	dir    string
	env    []string
}

// newExport migrates a schema for an export of a Docket schema with the
// default settings to files, or to the sink that the variables in sink set up.
// Variables of the consumer, and those of the Go runtime, are
// passed on from our environment, to try what they do.
func (b *bed) newExport(ctx context.Context, docketSchema string, sink ...string) (*export, error) {
	b.exports++
	e := &export{schema: fmt.Sprintf("bench_%d", b.exports)}
	e.dir = filepath.Join(b.dir, e.schema)
	if err := os.Mkdir(e.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory for an export: %w", err)
	}
	e.env = []string{
		"DOCKET_DATABASE_URL=" + b.url(), "DOCKET_SCHEMA=" + docketSchema, "EXPORT_SCHEMA=" + e.schema,
		"RETENTION_EVENTS=none", "EXPORTER_HTTP_ADDR=127.0.0.1:0", "LOG_LEVEL=warn", "LOG_FORMAT=text",
		"EXPORTER_CONSUMERS=" + consumer,
	}
	if len(sink) == 0 {
		sink = toFiles(e.dir)
	}
	e.env = append(e.env, sink...)
	for _, entry := range os.Environ() {
		for _, prefix := range []string{"CONSUMER_BENCH_", "EXPORTER_POLL_", "GOGC=", "GOMEMLIMIT=", "GODEBUG=", "GOMAXPROCS="} {
			if strings.HasPrefix(entry, prefix) {
				e.env = append(e.env, entry)
			}
		}
	}
	if _, err := runProcess(ctx, e.env, b.Exporter, "migrate"); err != nil {
		return nil, err
	}
	return e, nil
}

func toFiles(dir string) []string {
	return []string{"CONSUMER_BENCH_SINK=file", "CONSUMER_BENCH_FILE_DIR=" + dir}
}

// end stops the exporter that runs in an export, and removes that.
func (b *bed) end(ctx context.Context, p *process, e *export) error {
	_, err := p.stop()
	return errors.Join(err, b.remove(context.WithoutCancel(ctx), e))
}

// remove deletes what was exported, so that many turns need the room of one.
func (b *bed) remove(ctx context.Context, e *export) error {
	_, err := b.pool.Exec(ctx, "DROP SCHEMA "+e.schema+" CASCADE")
	return errors.Join(err, os.RemoveAll(e.dir))
}
