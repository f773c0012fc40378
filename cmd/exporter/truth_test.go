package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// metrics are samples by name and labels: lag_events{analytics},
// consumer_paused_reason{paused,operator}. The prefix is left out.
type metrics map[string]float64

var (
	sampleLine = regexp.MustCompile(`^docket_exporter_(\w+?)(?:\{(.*)\})? (\S+)$`)
	labelValue = regexp.MustCompile(`\w+="([^"]*)"`)
)

// servedAt is where a process serves, "" while its log does not say so.
func servedAt(log string) string {
	_, rest, _ := strings.Cut(log, `"http server listening","addr":"`)
	addr, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return "http://" + addr
}

// url waits for where a child serves.
func (c *child) url() (url string) {
	c.t.Helper()
	pgtest.Until(c.t, 30*time.Second, "the address", func() bool {
		url = servedAt(c.stderr.String())
		return url != ""
	})
	return url
}

// scrape returns the samples of a child, and their types by name.
func (c *child) scrape() (metrics, map[string]string) {
	c.t.Helper()
	resp, err := http.Get(c.url() + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	samples, types := metrics{}, map[string]string{}
	for line := range strings.Lines(string(body)) {
		if m := sampleLine.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			var labels []string
			for _, l := range labelValue.FindAllStringSubmatch(m[2], -1) {
				labels = append(labels, l[1])
			}
			key := m[1]
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			if samples[key], err = strconv.ParseFloat(m[3], 64); err != nil {
				c.t.Fatalf("%q: %v", line, err)
			}
		}
		var name, kind string
		if n, _ := fmt.Sscanf(line, "# TYPE %s %s", &name, &kind); n == 2 {
			types[name] = kind
		}
	}
	return samples, types
}

// expect is what a sample must be; it gets NaN where there is none.
type expect func(v float64) bool

func absent(v float64) bool   { return math.IsNaN(v) }
func zero(v float64) bool     { return v == 0 }
func positive(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
func never(v float64) bool    { return math.IsInf(v, 1) }

func equals(want float64) expect { return func(v float64) bool { return v == want } }

func between(low, high float64) expect {
	return func(v float64) bool { return v >= low && v <= high }
}

// wrong lists what of the expectations does not hold of a consumer.
func (m metrics) wrong(consumer string, want map[string]expect) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		key := name + "{" + consumer + "}"
		if base, reason, ok := strings.Cut(name, "/"); ok {
			key = base + "{" + consumer + "," + reason + "}"
		}
		if consumer == "" {
			key = name
		}
		v, there := m[key]
		if !there {
			v = math.NaN()
		}
		if !want[name](v) {
			wrong = append(wrong, fmt.Sprintf("%s=%v", key, v))
		}
	}
	return wrong
}

// all overlays expectations: later ones win.
func all(layers ...map[string]expect) map[string]expect {
	out := map[string]expect{}
	for _, l := range layers {
		maps.Copy(out, l)
	}
	return out
}

const (
	truthRetention = 3600.0
	truthAge       = 60.0 // of the events that are inserted
)

// What the series say in each state.
var (
	owned = map[string]expect{
		"consumer_owned": equals(1), "consumer_epoch": positive, "unowned_seconds": zero, "since_poll_seconds": positive,
	}
	unowned   = map[string]expect{"consumer_owned": zero, "unowned_seconds": positive, "consumer_epoch": positive}
	healthy   = map[string]expect{"consumer_paused": zero, "consumer_paused_reason/operator": absent, "dead_letters_open": zero, "dead_letters_held": zero, "dead_letter_oldest_seconds": absent, "losses_open": zero, "lost_events_open": zero}
	noHoles   = map[string]expect{"open_holes": zero, "oldest_hole_seconds": zero}
	delivered = map[string]expect{
		"lag_events": zero, "lag_exact": equals(1), "lag_seconds": zero, "headroom_seconds": equals(truthRetention), "headroom_ratio": equals(1),
		"catch_up_seconds": zero, "loss_eta_seconds": never, "drain_events_per_second": between(0, 100), "arrival_events_per_second": between(0, 100),
		"since_progress_seconds": between(0, 10), "since_poll_seconds": between(0, 10),
	}
	stuck = map[string]expect{
		"lag_exact": equals(1), "lag_seconds": between(truthAge, truthAge+60), "headroom_seconds": between(truthRetention-truthAge-60, truthRetention-truthAge),
		"headroom_ratio": between(0.9, 1), "drain_events_per_second": zero, "arrival_events_per_second": between(0, 100), "catch_up_seconds": never,
		"loss_eta_seconds": positive, "since_progress_seconds": positive,
	}
	noBacklog = map[string]expect{
		"lag_events": absent, "lag_exact": absent, "lag_seconds": absent, "headroom_seconds": absent, "headroom_ratio": absent,
		"drain_events_per_second": absent, "arrival_events_per_second": absent, "catch_up_seconds": absent, "loss_eta_seconds": absent,
	}
	nothing = all(noBacklog, map[string]expect{
		"position_high_id": absent, "open_holes": absent, "oldest_hole_seconds": absent, "consumer_owned": absent, "consumer_epoch": absent,
		"unowned_seconds": absent, "consumer_paused": absent, "consumer_paused_reason/operator": absent, "since_progress_seconds": absent,
		"since_poll_seconds": absent, "dead_letters_open": absent, "dead_letters_held": absent, "losses_open": absent, "lost_events_open": absent,
	})
	events = func(n float64) map[string]expect { return map[string]expect{"lag_events": equals(n)} }
	high   = func(n float64) map[string]expect { return map[string]expect{"position_high_id": equals(n)} }
	ofOwn  = func(e expect) map[string]expect {
		return map[string]expect{"events_accepted_total": e, "batches_total": e, "last_successful_poll_timestamp_seconds": e}
	}
)

// truth is a world whose state is known.
type truth struct {
	*site
	export   string // URL of the exporter's own database
	admin    *pgxpool.Pool
	exporter *child
	monitor  *child
	letGo    func() // ends the transaction that holds an id
}

// The series tell the truth in every state, in every process, and say nothing
// where it is not known.
func TestTruth(t *testing.T) {
	w := newTruth(t)
	for _, state := range []struct {
		name    string
		arrange func()
		running bool                         // processes that export live
		want    map[string]map[string]expect // by consumer, in every process
		own     map[string]map[string]expect // by consumer, only in the process that exports
	}{
		{
			name: "idle, backlog, sink down, paused, filtered", arrange: w.insertAfterAPause, running: true,
			want: map[string]map[string]expect{
				"analytics": all(owned, healthy, noHoles, delivered, high(10)),
				"filtered":  all(owned, healthy, noHoles, delivered, high(10)),
				"lingering": all(owned, healthy, noHoles, stuck, events(10), high(0)),
				"feed":      all(owned, healthy, noHoles, stuck, events(10), high(0)),
				"paused": all(unowned, healthy, noHoles, stuck, events(10), high(0), map[string]expect{
					"consumer_paused": equals(1), "consumer_paused_reason/operator": equals(1), "consumer_paused_reason/sink": absent,
				}),
				"": {"retention_seconds": equals(truthRetention), "lag_collected_timestamp_seconds": positive},
			},
			own: map[string]map[string]expect{"analytics": ofOwn(positive)},
		},
		{
			name: "hole held", arrange: w.holdAnID, running: true,
			want: map[string]map[string]expect{
				"analytics": all(owned, healthy, delivered, high(12), map[string]expect{"open_holes": equals(1), "oldest_hole_seconds": positive}),
			},
		},
		{
			name: "hole given up", arrange: func() { w.letGo() }, running: true,
			want: map[string]map[string]expect{"analytics": all(owned, healthy, noHoles, delivered, high(12))},
		},
		{
			name: "owner killed", arrange: w.killTheOwner, running: true,
			want: map[string]map[string]expect{
				"analytics": all(owned, healthy, noHoles, delivered, high(13), map[string]expect{"consumer_epoch": between(2, 100)}),
				"feed":      all(owned, healthy, stuck, map[string]expect{"lag_events": equals(12), "consumer_epoch": between(2, 100)}),
			},
		},
		{
			name: "all killed", arrange: w.killAll,
			want: map[string]map[string]expect{
				"analytics": all(unowned, healthy, noHoles, stuck, events(5), high(13), ofOwn(absent), map[string]expect{"drain_events_per_second": between(0, 100)}),
				"feed":      all(unowned, healthy, stuck, events(17)),
				"filtered":  all(unowned, healthy, events(0), map[string]expect{"lag_seconds": zero, "catch_up_seconds": zero}),
			},
		},
		{
			name: "Docket's database down", arrange: func() { w.shut(w.dsn) },
			want: map[string]map[string]expect{
				"analytics": all(unowned, healthy, noHoles, noBacklog, high(13)),
				"paused":    all(unowned, noBacklog, map[string]expect{"consumer_paused": equals(1), "consumer_paused_reason/operator": equals(1)}),
			},
		},
		{
			name: "both databases down", arrange: func() { w.shut(w.export) },
			want: map[string]map[string]expect{
				"analytics": nothing, "paused": nothing,
				"": {"retention_seconds": equals(truthRetention), "lag_collected_timestamp_seconds": positive},
			},
		},
		{
			name: "both are back", arrange: func() { w.open(w.dsn); w.open(w.export) },
			want: map[string]map[string]expect{"analytics": all(unowned, healthy, noHoles, stuck, events(5), map[string]expect{"drain_events_per_second": between(0, 100)})},
		},
	} {
		state.arrange()
		w.await(state.name, w.monitor, state.want)
		if state.running {
			w.await(state.name, w.exporter, state.want)
			w.await(state.name, w.exporter, state.own)
		}
	}
	w.wantDocumented()
}

func newTruth(t *testing.T) *truth {
	t.Helper()
	dsn, export := pgtest.Database(t), pgtest.Database(t)
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, dsn), "public"); err != nil {
		t.Fatal(err)
	}
	env := with("DOCKET_DATABASE_URL="+dsn, "EXPORT_DATABASE_URL="+export, "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir(),
		"RETENTION_EVENTS=1h", "EXPORTER_LEASE_TTL=1s", "CONSUMER_FILTERED_TYPES=none_such", "CONSUMER_LINGERING_LINGER=1h")
	s := &site{t: t, env: env, dsn: dsn, pool: pgtest.Pool(t, dsn)}
	for _, name := range []string{"filtered", "lingering", "feed", "paused"} {
		s.also(name)
	}
	command(t, env, "migrate").want(t, exitOK)
	w := &truth{site: s, export: export, admin: pgtest.Pool(t, pgtest.Database(t))}
	w.exporter = start(t, env, refusedSink+" 0", "run")
	watching := maps.Clone(env)
	maps.DeleteFunc(watching, func(name, _ string) bool {
		return strings.HasPrefix(name, "CONSUMER_") || name == "EXPORTER_CONSUMERS"
	})
	w.monitor = start(t, watching, "", "monitor")
	return w
}

// await waits until a process tells what is wanted.
func (w *truth) await(state string, c *child, want map[string]map[string]expect) {
	w.t.Helper()
	pgtest.Eventually(w.t, 15*time.Second, func() error {
		got, _ := c.scrape()
		var wrong []string
		for _, consumer := range slices.Sorted(maps.Keys(want)) {
			wrong = append(wrong, got.wrong(consumer, want[consumer])...)
		}
		if len(wrong) == 0 {
			return nil
		}
		return fmt.Errorf("%s: %s says\n%s\n%s", state, c.cmd.Args[1], strings.Join(wrong, "\n"), lastLines(c.stderr.String(), 20))
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

// old inserts n events of a run that are as old as truthAge.
func (w *truth) old(run string, n int) {
	w.t.Helper()
	tx, err := w.pool.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	pgtest.Exec(w.t, tx, `INSERT INTO docket_runs (run_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
		VALUES ($1, 'chain', 'hash', 'running', '\x83', gen_random_uuid(), now(), now(), now(), now()) ON CONFLICT DO NOTHING`, run)
	pgtest.Exec(w.t, tx, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT $1, n, 'node_completed', 0, $3, $3, now(), clock_timestamp() - $4::float8 * interval '1 second' FROM generate_series(1, $2::int) n`,
		run, n, docketsim.EncodeEvent(map[string]any{}), truthAge)
	if err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *truth) insertAfterAPause() {
	w.await("started", w.monitor, map[string]map[string]expect{"paused": all(owned, map[string]expect{"lag_events": zero}), "feed": owned, "lingering": owned})
	command(w.t, w.env, "consumer", "pause", "paused", "--reason", "a test").want(w.t, exitOK)
	w.await("paused", w.monitor, map[string]map[string]expect{"paused": unowned})
	w.old("r1", 10)
}

// holdAnID draws 11 in a transaction that stays open, and commits 12.
func (w *truth) holdAnID() {
	tx, err := w.pool.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	pgtest.Exec(w.t, tx, `SELECT nextval('docket_events_id_seq')`)
	w.letGo = func() { _ = tx.Rollback(w.t.Context()) }
	w.old("r2", 1)
}

func (w *truth) killTheOwner() {
	second := start(w.t, w.env, refusedSink+" 0", "run")
	second.url()
	w.exporter.kill()
	w.exporter = second
	w.old("r3", 1)
}

func (w *truth) killAll() {
	w.exporter.kill()
	w.await("all killed", w.monitor, map[string]map[string]expect{"analytics": unowned, "filtered": unowned})
	w.old("r4", 5)
}

// shut makes a database answer nobody.
func (w *truth) shut(dsn string) {
	w.t.Helper()
	name := databaseOf(w.t, dsn)
	pgtest.Exec(w.t, w.admin, `ALTER DATABASE "`+name+`" ALLOW_CONNECTIONS false`)
	pgtest.Exec(w.t, w.admin, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1`, name)
}

func (w *truth) open(dsn string) {
	w.t.Helper()
	pgtest.Exec(w.t, w.admin, `ALTER DATABASE "`+databaseOf(w.t, dsn)+`" ALLOW_CONNECTIONS true`)
}

func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return config.ConnConfig.Database
}

// wantDocumented compares what was served with the document.
func (w *truth) wantDocumented() {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, types := w.monitor.scrape()
	for name, kind := range types {
		if strings.HasPrefix(name, "docket_exporter_") && !bytes.Contains(text, []byte("| `"+name+"` | "+kind+" |")) {
			w.t.Errorf("docs/metrics.md does not have %s as a %s", name, kind)
		}
	}
}
