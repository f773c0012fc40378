package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// site is a Docket database, the exporter's environment for it, and a look at both.
type site struct {
	t    *testing.T
	env  map[string]string
	dsn  string
	pool *pgxpool.Pool
}

func newSite(t *testing.T) *site {
	t.Helper()
	env, _ := installed(t)
	dsn := env["DOCKET_DATABASE_URL"]
	return &site{t: t, env: env, dsn: dsn, pool: pgtest.Pool(t, dsn)}
}

// insert writes n events of a run of its own.
func (s *site) insert(run string, n int) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, `INSERT INTO docket_runs (run_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
		VALUES ($1, 'chain', 'hash', 'running', '\x83', gen_random_uuid(), now(), now(), now(), now()) ON CONFLICT DO NOTHING`, run)
	pgtest.Exec(s.t, s.pool, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT $1, m + n, 'node_completed', 0, $3, $4, now(), clock_timestamp()
		FROM generate_series(1, $2::int) n, (SELECT coalesce(max(seq), 0) m FROM docket_events WHERE run_id = $1) last`,
		run, n, docketsim.EncodeEvent(map[string]any{"attempt": 1}), docketsim.EncodeEvent(map[string]any{}))
}

// delivered returns "run/seq" of every line of a consumer's files, in order.
func (s *site) delivered(consumer string) []string {
	s.t.Helper()
	dir := s.env["CONSUMER_"+strings.ToUpper(consumer)+"_FILE_DIR"]
	files, err := filepath.Glob(filepath.Join(dir, consumer+"-*.jsonl*"))
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(files)
	var got []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // renamed meanwhile
		}
		for line := range strings.Lines(string(text)) {
			var e struct {
				RunID string `json:"run_id"`
				Seq   int64  `json:"seq"`
			}
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &e) == nil {
				got = append(got, fmt.Sprintf("%s/%d", e.RunID, e.Seq))
			}
		}
	}
	return got
}

// await waits until a consumer has delivered n events.
func (s *site) await(consumer string, n int) {
	s.t.Helper()
	pgtest.Until(s.t, 30*time.Second, fmt.Sprintf("%d events of %s", n, consumer), func() bool { return len(s.delivered(consumer)) >= n })
}

// status reads a consumer's row.
func (s *site) status(consumer string) cursor.Status {
	s.t.Helper()
	pool := pgtest.PlainPool(s.t, s.dsn)
	defer pool.Close()
	status, err := cursor.NewStore(pool, nil, "docket_export").Get(s.t.Context(), consumer)
	if err != nil {
		s.t.Fatal(err)
	}
	return status
}

// also adds a consumer.
func (s *site) also(name string) {
	s.env["EXPORTER_CONSUMERS"] += "," + name
	s.env["CONSUMER_"+strings.ToUpper(name)+"_SINK"] = "file"
	s.env["CONSUMER_"+strings.ToUpper(name)+"_FILE_DIR"] = s.t.TempDir()
}

func (s *site) wantDelivered(consumer, run string, n int) {
	s.t.Helper()
	var want []string
	for seq := range n {
		want = append(want, fmt.Sprintf("%s/%d", run, seq+1))
	}
	if got := s.delivered(consumer); !slices.Equal(got, want) {
		s.t.Fatalf("%s delivered %v, want %d events of %s", consumer, got, n, run)
	}
}

func TestRunOnce(t *testing.T) {
	s := newSite(t)
	s.insert("r", 12)
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "5"
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	command(t, s.env, "run", "--once").want(t, exitOK, "analytics caught up at 12")
	s.wantDelivered("analytics", "r", 12)
	s.insert("r", 1)
	command(t, s.env, "run", "--once").want(t, exitOK, "analytics caught up at 13")
	s.wantDelivered("analytics", "r", 13)
}

func TestRunOnceReportsOpenIDs(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	holder := pgtest.Connect(t, s.dsn)
	pgtest.Exec(t, holder, "BEGIN")
	pgtest.Exec(t, holder, "SELECT nextval('docket_events_id_seq')")
	s.insert("r", 2)
	command(t, s.env, "run", "--once").want(t, exitOK, "analytics caught up at 3-{[1,1]}", "keeps 1 ids open")
	pgtest.Exec(t, holder, "COMMIT")
	command(t, s.env, "run", "--once").want(t, exitOK, "analytics caught up at 3\n")
}

func TestSigtermFinishesTheBatchInFlight(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("r", 3)
	c := start(t, s.env, slowSink+" 1", "run")
	c.awaitLine("at slow")
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	s.wantDelivered("analytics", "r", 3)
	if at := s.status("analytics"); at.Position.String() != "3" || at.Owner != "" || at.Intent != nil {
		t.Fatalf("status %+v", at)
	}
}

// A sink that never answers costs the grace and nothing else: the attempt does
// not count, the lease is given up, the exit code is 0.
func TestSigtermAbandonsAHungSink(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{hungSink, deafSink} {
		t.Run(fault, func(t *testing.T) {
			s := newSite(t)
			s.env["EXPORTER_SHUTDOWN_GRACE"] = "2s"
			s.insert("r", 3)
			c := start(t, s.env, fault+" 1", "run")
			c.awaitLine("at " + fault)
			began := time.Now()
			c.signal(syscall.SIGTERM)
			if code := c.wait(10 * time.Second); code != exitOK {
				t.Fatalf("exit code %d\n%s", code, c.stderr)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Fatalf("took %v of a grace of 2s", took)
			}
			at := s.status("analytics")
			if at.Intent == nil || at.Intent.Attempt != 0 || at.Owner != "" || at.DeadLetters != 0 || at.Position.High != 0 {
				t.Fatalf("status %+v, intent %+v", at, at.Intent)
			}
			command(t, s.env, "run", "--once").want(t, exitOK)
			s.wantDelivered("analytics", "r", 3)
		})
	}
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	c := start(t, s.env, deafSink+" 1", "run")
	c.awaitLine("at deaf")
	c.signal(syscall.SIGTERM)
	pgtest.Until(t, 10*time.Second, "the first signal to be taken", func() bool { return strings.Contains(c.stderr.String(), "stopping") })
	pgtest.Until(t, 3*time.Second, "the exit", func() bool { // the first ones are the same signal, passed on by a parent
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	})
	if code := c.wait(time.Second); code != 128+int(syscall.SIGTERM) {
		t.Fatalf("exit code %d", code)
	}
}

// A stop while run still waits for a database must not start any consumer.
func TestSigtermBeforeEverythingIsPrepared(t *testing.T) {
	s := newSite(t)
	s.env["DOCKET_SCHEMA"] = "acme"
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the wait", func() bool { return strings.Contains(c.stderr.String(), "cannot start yet") })
	c.signal(syscall.SIGTERM)
	if code := c.wait(10 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	if text := c.stderr.String(); strings.Contains(text, "claimed") {
		t.Fatalf("a consumer was started\n%s", text)
	}
}

// As PID 1 the kernel ignores signals without a handler, and there is no init
// to reap or to pass them on.
func TestSigtermAsPID1(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("r", 3)
	dir := s.env["CONSUMER_ANALYTICS_FILE_DIR"]
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"unshare", "--pid", "--fork", "--kill-child"}
	if os.Getuid() == 0 {
		world(t, dir)
		world(t, filepath.Dir(self))
		argv = append(argv, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
	} else {
		argv = append(argv[:1], append([]string{"--user"}, argv[1:]...)...)
	}
	c := startCommand(t, s.env, slowSink+" 1", append(argv, self, "run")...)
	c.awaitLine("at slow")
	inner := pidOf(t, c.cmd.Process.Pid)
	if err := syscall.Kill(inner, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(20 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	s.wantDelivered("analytics", "r", 3)
	if at := s.status("analytics"); at.Owner != "" || at.Position.High != 3 {
		t.Fatalf("status %+v", at)
	}
}

// world lets every user enter a directory and write to it.
func world(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for up := filepath.Dir(dir); strings.HasPrefix(up, os.TempDir()+"/"); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// pidOf returns the child process of a process.
func pidOf(t *testing.T, parent int) int {
	t.Helper()
	var pid int
	pgtest.Eventually(t, 10*time.Second, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(string(text), &pid)
		return err
	})
	return pid
}

// One consumer panics, another one's sink is down: the third goes on.
func TestConsumersDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{panicSink, refusedSink} {
		t.Run(fault, func(t *testing.T) {
			s := newSite(t)
			s.also("feed")
			s.insert("r", 3)
			c := start(t, s.env, fault+" 0", "run")
			s.await("analytics", 3)
			want := map[string]string{panicSink: "panic in the consumer", refusedSink: "connection refused"}[fault]
			pgtest.Until(t, 20*time.Second, "the fault to be logged", func() bool { return strings.Contains(c.stderr.String(), want) })
			s.insert("r", 3)
			s.await("analytics", 6)
			if n := len(s.delivered("feed")); n != 0 {
				t.Fatalf("feed delivered %d", n)
			}
			c.signal(syscall.SIGTERM)
			if code := c.wait(20 * time.Second); code != exitOK {
				t.Fatalf("exit code %d\n%s", code, c.stderr)
			}
			command(t, s.env, "run", "--once").want(t, exitOK)
			s.wantDelivered("feed", "r", 6)
			s.wantDelivered("analytics", "r", 6)
		})
	}
}

func TestPauseAndResumeARunningConsumer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "60s"
	s.insert("r", 2)
	c := start(t, s.env, "", "run")
	s.await("analytics", 2)
	command(t, s.env, "consumer", "pause", "analytics", "--reason", "the warehouse moves").want(t, exitOK)
	pgtest.Until(t, 10*time.Second, "the lease to be given up", func() bool { return s.status("analytics").Owner == "" })
	pgtest.Until(t, 10*time.Second, "the owner to stop", func() bool { return strings.Contains(c.stderr.String(), "the warehouse moves") })
	if text := c.stderr.String(); strings.Contains(text, "lease was not given up") {
		t.Error(text)
	}
	s.insert("r", 2)
	command(t, s.env, "status").want(t, exitPerson, "paused", "the warehouse moves")
	if n := len(s.delivered("analytics")); n != 2 {
		t.Fatalf("a paused consumer delivered %d", n)
	}
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "it has moved").want(t, exitOK)
	s.await("analytics", 4)
	s.wantDelivered("analytics", "r", 4)
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
}

// We never hold a transaction open while a sink works.
func TestNoTransactionDuringADelivery(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	c := start(t, s.env, hungSink+" 1", "run")
	c.awaitLine("at hung")
	for range 20 {
		age := pgtest.Value[float64](t, s.pool, `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
			FROM pg_stat_activity WHERE application_name = 'docket-exporter'`)
		if age > 1 {
			t.Fatalf("a transaction of ours is %.1f s old", age)
		}
	}
	c.kill()
}

func TestUndecodableRowBecomesADeadLetter(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE seq = 2`)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 3")
	if got := s.delivered("analytics"); !slices.Equal(got, []string{"r/1", "r/3"}) {
		t.Fatalf("delivered %v", got)
	}
	row := pgtest.Value[string](t, s.pool, `SELECT concat_ws(' ', run_id, seq, event_id, class, encode(payload, 'hex'), state, reason) FROM docket_export.dead_letters`)
	if !strings.HasPrefix(row, "r 2 2 undecodable 8368 open payload: ") {
		t.Fatalf("dead letter %q", row)
	}
}

// A dead letter can be stored whatever its row holds.
func TestInfinityBecomesADeadLetter(t *testing.T) {
	s := newSite(t)
	s.insert("r", 4)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET occurred_at = 'infinity' WHERE seq = 2`)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET inserted_at = '-infinity' WHERE seq = 3`)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 4")
	if got := s.delivered("analytics"); !slices.Equal(got, []string{"r/1", "r/4"}) {
		t.Fatalf("delivered %v", got)
	}
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.dead_letters WHERE reason LIKE '%infinity%'`); n != 2 {
		t.Fatalf("%d dead letters", n)
	}
}

// newSiteOn is newSite on a server of its own.
func newSiteOn(t *testing.T, cluster *pgserver.Cluster) *site {
	t.Helper()
	dsn := cluster.URL("postgres")
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, dsn), "public"); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dsn: dsn, pool: pgtest.Pool(t, dsn), env: with("DOCKET_DATABASE_URL="+dsn, "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir())}
	command(t, s.env, "migrate").want(t, exitOK)
	return s
}

// A server that takes no writes for a while is waited for, said to be the
// reason, and left behind within seconds.
func TestReadOnlyServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, pgserver.Options{})
	s := newSiteOn(t, cluster)
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	s.insert("r", 2)
	c := start(t, s.env, "", "run")
	s.await("analytics", 2)
	readOnly := func(on string) {
		t.Helper()
		conn := pgtest.Connect(t, s.dsn)
		pgtest.Exec(t, conn, "SET default_transaction_read_only = off")
		pgtest.Exec(t, conn, "ALTER SYSTEM SET default_transaction_read_only = "+on)
		pgtest.Exec(t, conn, "SELECT pg_reload_conf()")
	}
	readOnly("on")
	pgtest.Until(t, 20*time.Second, "readyz to say so", func() bool {
		return strings.Contains(fmt.Sprint(scrape(c.url()+"/readyz", "ready")), "takes no writes")
	})
	readOnly("off")
	back := time.Now()
	pgtest.Eventually(t, 20*time.Second, func() error { return scrape(c.url()+"/readyz", "ready") })
	s.insert("r", 3)
	s.await("analytics", 5)
	if took := time.Since(back); took > 10*time.Second {
		t.Errorf("it took %v to go on", took)
	}
	s.wantDelivered("analytics", "r", 5)
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
}

// A database that has stopped answering must not hold the process beyond the grace.
func TestSigtermWithAFrozenDatabase(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, pgserver.Options{})
	s := newSiteOn(t, cluster)
	s.env["EXPORTER_SHUTDOWN_GRACE"] = "3s"
	s.insert("r", 2)
	c := start(t, s.env, "", "run")
	s.await("analytics", 2)
	var stopped []int
	for _, pid := range pgtest.Value[[]int32](t, s.pool, `SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = 'docket-exporter'`) {
		if err := syscall.Kill(int(pid), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		stopped = append(stopped, int(pid))
	}
	if err := cluster.Signal(syscall.SIGSTOP); err != nil { // no new connections either
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.Signal(syscall.SIGCONT)
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	began := time.Now()
	c.signal(syscall.SIGTERM)
	if code := c.wait(10 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Fatalf("took %v of a grace of 3s", took)
	}
}

// A release of Docket that writes another envelope must not fill the dead letters.
func TestUnknownEnvelopeVersionPauses(t *testing.T) {
	s := newSite(t)
	s.insert("r", 2)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368047706646f636b6574610277056576656e747400000000'`)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	command(t, s.env, "run", "--once").want(t, exitPerson, "unknown_envelope_version", "another Docket version")
	if at := s.status("analytics"); at.Position.High != 0 || at.DeadLetters != 0 || at.Paused == nil {
		t.Fatalf("status %+v", at)
	}
	command(t, s.env, "run", "--once").want(t, exitPerson, "was paused by")
}

func TestRunRefusesASequenceWithACache(t *testing.T) {
	s := newSite(t)
	pgtest.Exec(t, s.pool, `ALTER SEQUENCE docket_events_id_seq CACHE 20`)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	for _, args := range [][]string{{"run"}, {"run", "--once"}, {"check"}} {
		command(t, s.env, args...).want(t, exitPerson, "ALTER SEQUENCE", "CACHE 1")
	}
}

func TestRunRefusesAnotherTableShape(t *testing.T) {
	s := newSite(t)
	s.insert("r", 1)
	pgtest.Exec(t, s.pool, `ALTER TABLE docket_events DROP COLUMN metadata`)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	command(t, s.env, "run", "--once").want(t, exitPerson, "metadata is missing")
}

// Docket may be installed after the exporter.
func TestRunWaitsForDocketsTables(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["DOCKET_SCHEMA"] = "acme"
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the hint", func() bool { return strings.Contains(c.stderr.String(), "DOCKET_SCHEMA") })
	once := command(t, with("EXPORTER_HTTP_ADDR=127.0.0.1:0", "DOCKET_SCHEMA=acme", "DOCKET_DATABASE_URL="+s.dsn, "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir()), "run", "--once")
	once.want(t, exitUsage, `schema "acme" has no docket_events`)
	if err := docketsim.Install(t.Context(), s.pool, "acme"); err != nil {
		t.Fatal(err)
	}
	pgtest.Until(t, 20*time.Second, "the claim", func() bool { return strings.Contains(c.stderr.String(), "claimed") })
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
}

// One exporter schema belongs to one Docket schema.
func TestRunRefusesAnotherDocketSchema(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["DOCKET_SCHEMA"] = "pulic"
	command(t, s.env, "status").want(t, exitOK, `schema "pulic" has no docket_events and docket_runs`)
	s.env["DOCKET_SCHEMA"] = "public"
	command(t, s.env, "run", "--once").want(t, exitOK)
	if err := docketsim.Install(t.Context(), s.pool, "acme"); err != nil {
		t.Fatal(err)
	}
	s.env["DOCKET_SCHEMA"] = "pulic" // has no tables to wait for
	command(t, s.env, "run").want(t, exitPerson, `belongs to Docket's schema "public", not to "pulic": correct DOCKET_SCHEMA`)
	command(t, s.env, "status").want(t, exitPerson, `belongs to Docket's schema "public", not to "pulic"`)
	s.env["DOCKET_SCHEMA"] = "acme"
	command(t, s.env, "check").want(t, exitPerson, `belongs to Docket's schema "public", not to "acme"`)
	command(t, s.env, "run").want(t, exitPerson, `belongs to Docket's schema "public", not to "acme"`, "EXPORT_SCHEMA")
}

// A mistyped name must not start a new history beside an old cursor.
func TestMistypedConsumerIsRefused(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 1)
	command(t, s.env, "run", "--once").want(t, exitOK)
	typo := with("EXPORTER_HTTP_ADDR=127.0.0.1:0", "DOCKET_DATABASE_URL="+s.dsn, "EXPORTER_CONSUMERS=analitics",
		"CONSUMER_ANALITICS_SINK=file", "CONSUMER_ANALITICS_FILE_DIR="+t.TempDir())
	delete(typo, "CONSUMER_ANALYTICS_SINK")
	delete(typo, "CONSUMER_ANALYTICS_FILE_DIR")
	command(t, typo, "run", "--once").want(t, exitUsage, "consumer analitics is new", "analytics", "consumer rename", "CONSUMER_ANALITICS_START")
	if at := s.status("analytics"); at.Position.High != 1 {
		t.Fatalf("status %+v", at)
	}
	typo["CONSUMER_ANALITICS_START"] = "latest"
	command(t, typo, "run", "--once").want(t, exitOK, "analitics caught up at 1")
}

func TestMetricsAndHealth(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	c := start(t, s.env, "", "run")
	s.await("analytics", 3)
	for _, path := range []string{"/livez", "/readyz"} {
		pgtest.Eventually(t, 10*time.Second, func() error { return scrape(c.url()+path, "") })
	}
	for _, want := range []string{
		`docket_exporter_events_accepted_total{consumer="analytics"} 3`, `docket_exporter_lag_events{consumer="analytics"} 0`,
		`docket_exporter_lag_seconds{consumer="analytics"} 0`, `docket_exporter_position_high_id{consumer="analytics"} 3`,
		`docket_exporter_open_holes{consumer="analytics"} 0`, `docket_exporter_consumer_owned{consumer="analytics"} 1`,
		`docket_exporter_holes_filled_total{consumer="analytics"} 0`, `docket_exporter_late_rows_total{consumer="analytics"} 0`,
		`docket_exporter_headroom_seconds{`, `docket_exporter_delivery_seconds_count{consumer="analytics"} 1`, `docket_exporter_build_info{`,
	} {
		if want == `docket_exporter_headroom_seconds{` && s.env["RETENTION_EVENTS"] == "none" {
			continue
		}
		pgtest.Eventually(t, 10*time.Second, func() error { return scrape(c.url()+"/metrics", want) })
	}
	c.kill()
}

func scrape(url, want string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
		return fmt.Errorf("%s: %s, lacks %q:\n%s", url, r.Status, want, text)
	}
	return nil
}

// A directory that is missing at the start is trouble like any other of a sink:
// it is shown, and gone when the directory is there.
func TestRunWaitsForTheDirectory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.env["CONSUMER_ANALYTICS_FILE_DIR"] = filepath.Join(t.TempDir(), "later")
	s.insert("r", 2)
	command(t, with("EXPORTER_HTTP_ADDR=127.0.0.1:0", "DOCKET_DATABASE_URL="+s.dsn, "CONSUMER_ANALYTICS_FILE_DIR="+s.env["CONSUMER_ANALYTICS_FILE_DIR"]), "run", "--once").
		want(t, exitUsage, "CONSUMER_ANALYTICS_FILE_DIR")
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the error to be shown", func() bool {
		return strings.Contains(s.status("analytics").LastError, "CONSUMER_ANALYTICS_FILE_DIR")
	})
	if epoch := s.status("analytics").Epoch; epoch > 2 {
		t.Fatalf("claimed %d times", epoch)
	}
	if err := os.Mkdir(s.env["CONSUMER_ANALYTICS_FILE_DIR"], 0o755); err != nil {
		t.Fatal(err)
	}
	s.await("analytics", 2)
	pgtest.Until(t, 10*time.Second, "the error to be gone", func() bool { return s.status("analytics").LastError == "" })
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
}

// A start that cannot be is a mistake in the configuration.
func TestRunRefusesAnImpossibleStart(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_START"] = "99999999"
	command(t, s.env, "run").want(t, exitUsage, "CONSUMER_ANALYTICS_START", "do not exist yet")
}

// What a database has set changes neither a start after a crash nor what people see.
func TestDatabaseSettingsDoNotMatter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.insert("r", 2)
	c := start(t, s.env, "", "run")
	s.await("analytics", 2)
	pgtest.Until(t, 10*time.Second, "caught_up_at", func() bool { return s.status("analytics").CaughtUpAt != nil })
	c.kill()
	s.insert("r", 2)
	c = start(t, s.env, afterBegin+" 1", "run")
	c.awaitLine("at " + afterBegin)
	c.kill()
	for _, set := range []string{"bytea_output = escape", "DateStyle = 'German, DMY'", "IntervalStyle = sql_standard", "TimeZone = 'Asia/Kolkata'"} {
		pgtest.Exec(t, s.pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+strings.ReplaceAll(set, "'", "''")+`', current_database()); END $$`)
	}
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	command(t, s.env, "status").want(t, exitOK, "analytics")
	pgtest.Until(t, 10*time.Second, "the lease to expire", func() bool {
		return !pgtest.Value[bool](t, s.pool, `SELECT lease_until > clock_timestamp() FROM docket_export.consumers`)
	})
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 4")
	s.wantDelivered("analytics", "r", 4)
	command(t, s.env, "check").want(t, exitOK)
}

// Bytes that are not UTF-8, from a database in SQL_ASCII, hold up nothing.
func TestTextsThatAreNotUTF8AreDelivered(t *testing.T) {
	utf8 := newSite(t)
	name := pgtest.Value[string](t, utf8.pool, `SELECT current_database()`)
	pgtest.Exec(t, utf8.pool, `CREATE DATABASE "`+name+`_ascii" ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), utf8.dsn)
		if err == nil {
			_, err = conn.Exec(context.Background(), `DROP DATABASE "`+name+`_ascii" WITH (FORCE)`)
			_ = conn.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, dsn: strings.Replace(utf8.dsn, name, name+"_ascii", 1), env: utf8.env}
	s.pool = pgtest.Pool(t, s.dsn+"&client_encoding=SQL_ASCII")
	if err := docketsim.Install(t.Context(), s.pool, "public"); err != nil {
		t.Fatal(err)
	}
	s.env["DOCKET_DATABASE_URL"], s.env["EXPORT_DATABASE_URL"] = s.dsn, utf8.dsn
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r\xff", 3)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x00' WHERE seq = 2`)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 3")
	if got := s.delivered("analytics"); !slices.Equal(got, []string{"r\uFFFD/1", "r\uFFFD/3"}) {
		t.Fatalf("delivered %q", got)
	}
}
