package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// demoExporter is this very program, run as a user would run it.
type demoExporter struct {
	process *subprocess.Process
	metrics string // URL
}

// startDemoExporter migrates and then runs the exporter, each as a process that
// is told everything by its environment. It returns once the exporter serves
// its metrics.
func startDemoExporter(ctx context.Context, d *demoDatabase, f *demoFiles, environ map[string]string) (*demoExporter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	run := func(args ...string) (*subprocess.Process, error) {
		return subprocess.Start(subprocess.Command{Path: self, Args: args, Env: demoEnvironment(d, f, environ), Log: f.log})
	}
	failed := func(what string, err error) error {
		return fmt.Errorf("%s: %w\nits words were:\n%s", what, err, subprocess.Tail(f.log, 4000))
	}
	migration, err := run("migrate")
	if err != nil {
		return nil, err
	}
	select {
	case <-migration.Done():
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), migration.Kill())
	}
	if err := migration.Err(); err != nil {
		return nil, failed("exporter migrate", err)
	}
	process, err := run("run")
	if err != nil {
		return nil, err
	}
	address, err := awaitAddress(ctx, process, f.log)
	if err != nil {
		return nil, errors.Join(failed("exporter run", err), process.Kill())
	}
	return &demoExporter{process: process, metrics: "http://" + address + "/metrics"}, nil
}

// demoEnvironment is the whole configuration of the exporter. What else is set
// for a Docket exporter here must not meddle.
func demoEnvironment(d *demoDatabase, f *demoFiles, environ map[string]string) []string {
	prefix := consumerPrefix(demoConsumer)
	configured := map[string]string{
		"DOCKET_DATABASE_URL": d.url.Reveal(),
		"DOCKET_SCHEMA":       d.schema,
		"EXPORT_SCHEMA":       d.exportSchema,
		"RETENTION_EVENTS":    "none",
		"EXPORTER_HTTP_ADDR":  "127.0.0.1:0",
		"EXPORTER_CONSUMERS":  demoConsumer,
		prefix + "SINK":       "file",
		prefix + "FILE_DIR":   f.events,
		"LOG_FORMAT":          logJSON,
		"LOG_LEVEL":           "info",
	}
	env := maps.Clone(environ)
	maps.DeleteFunc(env, func(name, _ string) bool {
		return sharedPrefix.MatchString(name) || strings.HasPrefix(name, "EXPORTER_") || strings.HasPrefix(name, "CONSUMER_") ||
			strings.HasPrefix(name, "DEMO_") || d.cluster != nil && strings.HasPrefix(name, "PG")
	})
	maps.Copy(env, configured)
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		entries = append(entries, name+"="+env[name])
	}
	return entries
}

// awaitAddress reads the address of the exporter's HTTP server, whose port the
// system chose, from its log.
func awaitAddress(ctx context.Context, process *subprocess.Process, log string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if address := loggedAddress(log); address != "" {
			return address, nil
		}
		select {
		case <-process.Done():
			return "", orClean(process.Err())
		case <-ctx.Done():
			return "", fmt.Errorf("await its HTTP server: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func loggedAddress(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		var entry struct {
			Msg, Addr string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "http server listening" {
			return entry.Addr
		}
	}
	return ""
}

// stop ends the exporter as a supervisor does; another exit code than 0 is an
// error.
func (e *demoExporter) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoStop)
	defer cancel()
	if err := e.process.Stop(ctx); err != nil {
		return fmt.Errorf("stop the exporter: %w", err)
	}
	return nil
}

// counter reads one of the consumer's counters from /metrics.
func (e *demoExporter) counter(ctx context.Context, name string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.metrics, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read metrics: %s", resp.Status)
	}
	return sampleOf(resp.Body, fmt.Sprintf("%s{consumer=%q}", name, demoConsumer))
}

// sampleOf finds a sample in Prometheus' text format.
func sampleOf(text io.Reader, series string) (int64, error) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			return int64(v), err
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return 0, fmt.Errorf("read metrics: there is no %s", series)
}
