package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/subprocess"
	"github.com/docket-exporter/exporter/internal/verdict"
)

const (
	docketSchema = "public"
	exportSchema = "docket_export"
	leaseTTL     = 2 * time.Second
)

// consumer is one of the two, configured as unlike each other as they can be.
type consumer struct {
	name        string
	batchEvents int
	settings    map[string]string      // CONSUMER_<NAME>_…
	keep        func(verdict.Row) bool // what its filter selects, said once more
}

var consumers = []consumer{
	{name: "everything", batchEvents: 500, settings: map[string]string{"FILE_SEGMENT_BYTES": "2MiB"}},
	{
		name: "some", batchEvents: 97,
		settings: map[string]string{
			"TYPES": "node_*,run_*,!run_cancelled", "TENANTS": "!acme", "LINGER": "5ms", "FILE_SEGMENT_AGE": "3s",
		},
		keep: func(r verdict.Row) bool {
			wanted := strings.HasPrefix(r.Type, "node_") || strings.HasPrefix(r.Type, "run_")
			return wanted && r.Type != "run_cancelled" && r.Tenant != "acme"
		},
	},
}

// world is everything that runs.
type world struct {
	settings settings
	dir      string
	cluster  *pgserver.Cluster
	writers  *pgxpool.Pool
	admin    *pgxpool.Pool // for faults and for looking
	writer   *docketsim.Writer
	replicas []*replica
	faults   *faults
}

// newWorld starts the server and makes all tables.
func newWorld(ctx context.Context, s settings, dir string) (w *world, err error) {
	w = &world{settings: s, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.cluster, err = pgserver.Start(ctx, pgserver.Options{Durable: true}); err != nil {
		return w, err
	}
	if w.writers, err = w.connect(ctx, "soak-writer", 20); err != nil {
		return w, err
	}
	if w.admin, err = w.connect(ctx, "soak", 4); err != nil {
		return w, err
	}
	if err := docketsim.Install(ctx, w.admin, docketSchema); err != nil {
		return w, err
	}
	for _, c := range consumers {
		if err := os.Mkdir(w.filesOf(c), 0o755); err != nil {
			return w, fmt.Errorf("make directory of consumer: %w", err)
		}
	}
	if err := w.migrate(); err != nil {
		return w, err
	}
	w.writer = docketsim.NewWriter(w.writers, docketSchema)
	w.writer.Rate, w.writer.KeepGoing, w.writer.SlowCommit = s.rate, true, 0.1
	for _, name := range []string{"a", "b"} {
		w.replicas = append(w.replicas, &replica{name: name, command: w.command(name, "run")})
	}
	w.faults, err = newFaults(w, filepath.Join(dir, "faults.log"))
	return w, err
}

func (w *world) connect(ctx context.Context, application string, most int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(w.cluster.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	config.MaxConns = most
	config.ConnConfig.RuntimeParams["application_name"] = application
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return pool, nil
}

func (w *world) filesOf(c consumer) string { return filepath.Join(w.dir, c.name) }

// command runs the exporter, configured by its environment alone.
func (w *world) command(name string, args ...string) subprocess.Command {
	var names []string
	env := []string{
		"DOCKET_DATABASE_URL=" + w.cluster.URL("postgres"), "RETENTION_EVENTS=none", "EXPORTER_REPLICA=" + name,
		"EXPORTER_HTTP_ADDR=127.0.0.1:0", "EXPORTER_LEASE_TTL=" + leaseTTL.String(), "EXPORTER_SHUTDOWN_GRACE=8s", "LOG_FORMAT=json",
	}
	for _, c := range consumers {
		names = append(names, c.name)
		prefix := "CONSUMER_" + strings.ToUpper(c.name) + "_"
		env = append(env, prefix+"SINK=file", prefix+"FILE_DIR="+w.filesOf(c), fmt.Sprintf("%sBATCH_EVENTS=%d", prefix, c.batchEvents))
		for name, value := range c.settings {
			env = append(env, prefix+name+"="+value)
		}
	}
	env = append(env, "EXPORTER_CONSUMERS="+strings.Join(names, ","))
	return subprocess.Command{Path: w.settings.exporter, Args: args, Env: env, Log: filepath.Join(w.dir, "replica-"+name+".log")}
}

func (w *world) migrate() error {
	c := w.command("migrate", "migrate")
	p, err := subprocess.Start(c)
	if err != nil {
		return err
	}
	<-p.Done()
	if err := p.Err(); err != nil {
		return fmt.Errorf("exporter migrate: %w:\n%s", err, subprocess.Tail(c.Log, 2000))
	}
	return nil
}

// endure writes and breaks things until the time is over, then lets the
// replicas catch up and stops them.
func (w *world) endure(ctx context.Context) error {
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	running, stopRunning := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	defer stopRunning()
	var background errgroup.Group
	background.Go(func() error { return w.writer.Run(writing) })
	for _, r := range w.replicas {
		background.Go(func() error { return r.keepRunning(running) })
	}
	breaking, cancel := context.WithTimeout(ctx, w.settings.duration)
	defer cancel()
	err := w.faults.run(breaking)
	stopWriting()
	if err == nil {
		err = w.drain(context.WithoutCancel(ctx))
	}
	stopRunning()
	return errors.Join(err, background.Wait())
}

// store reads the consumers' state.
func (w *world) store() *cursor.Store { return cursor.NewStore(w.admin, nil, exportSchema) }

// close stops what is left; the replicas have ended with endure.
func (w *world) close() error {
	for _, p := range []*pgxpool.Pool{w.writers, w.admin} {
		if p != nil {
			p.Close()
		}
	}
	if w.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return w.cluster.Stop(ctx)
}
