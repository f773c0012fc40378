package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// webhook points the site's consumer at a receiver.
func (s *site) webhook(url string) {
	s.env["CONSUMER_ANALYTICS_SINK"] = "webhook"
	s.env["CONSUMER_ANALYTICS_WEBHOOK_URL"] = url
	s.env["CONSUMER_ANALYTICS_WEBHOOK_SECRETS"] = webhookSecret
	s.env["CONSUMER_ANALYTICS_WEBHOOK_ALLOW_PRIVATE"] = "127.0.0.0/8"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
}

// receiverProcess is the receiver kit's example, a process of its own.
type receiverProcess struct {
	t      *testing.T
	binary string
	env    map[string]string
	addr   string
	child  *child
	log    strings.Builder // of the children before this one
}

func newReceiverProcess(t *testing.T) (*receiverProcess, *pgxpool.Pool) {
	t.Helper()
	r := &receiverProcess{t: t, binary: filepath.Join(t.TempDir(), "receiver"), addr: "127.0.0.1:0"}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", r.binary, "./sinks/webhook/receiver/example")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	dsn := pgtest.Database(t)
	r.env = map[string]string{"DATABASE_URL": dsn, "WEBHOOK_SECRETS": webhookSecret}
	r.start()
	return r, pgtest.Pool(t, dsn)
}

// start starts the process at the address it had before, and waits until it
// listens. Somebody else may have taken the port for a moment.
func (r *receiverProcess) start() {
	r.t.Helper()
	pgtest.Eventually(r.t, 30*time.Second, func() error {
		r.env["LISTEN"] = r.addr
		r.child = startCommand(r.t, r.env, "", r.binary)
		select {
		case line := <-r.child.lines:
			r.addr = strings.TrimPrefix(line, "listening on ")
			return nil
		case <-r.child.done:
			return fmt.Errorf("the receiver has ended: %s", r.child.stderr)
		}
	})
}

func (r *receiverProcess) restart() {
	r.t.Helper()
	r.child.kill()
	r.log.WriteString(r.child.stderr.String())
	r.start()
}

// count reads a number that scales a test.
func count(t *testing.T, name string, fallback int) int {
	t.Helper()
	text := cmp.Or(os.Getenv(name), strconv.Itoa(fallback))
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is not a number", name, text)
	}
	return n
}

// Exporters and receiver are killed again and again; afterwards each event has
// had its effect once, and in order per run. The kills come after progress, or
// with WEBHOOK_SOAK_SECONDS every second for so long.
func TestWebhookEffectsOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	seconds := count(t, "WEBHOOK_SOAK_SECONDS", 0)
	kills, events := cmp.Or(seconds, rounds(t)), count(t, "WEBHOOK_SOAK_EVENTS", 2000)
	receiver, effects := newReceiverProcess(t)
	s := newSite(t)
	s.webhook("http://" + receiver.addr)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "100"
	s.env["CONSUMER_ANALYTICS_WEBHOOK_TIMEOUT"] = "2s"
	rng := rand.New(rand.NewPCG(7, uint64(events)))
	done := func() int { return pgtest.Value[int](t, effects, "SELECT count(*) FROM received") }
	replicas := []*child{start(t, s.env, "", "run"), start(t, s.env, "", "run")}
	inserted := 0
	insert := func(until int) {
		for ; inserted < until; inserted += 20 {
			s.insert(fmt.Sprint("run ", inserted/20%17), 20)
		}
	}
	began := time.Now()
	for i := range kills {
		before := done()
		insert(events * (i + 1) / kills)
		if seconds > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second))) // the time between kills is what is asked for
		} else if want := min(before+1+rng.IntN(100), inserted-1); want > before {
			pgtest.Until(t, 60*time.Second, "progress", func() bool { return done() >= want })
		}
		victim := rng.IntN(len(replicas))
		replicas[victim].kill()
		receiver.restart()
		replicas[victim] = start(t, s.env, "", "run")
	}
	insert(events)
	pgtest.Eventually(t, 2*time.Minute, func() error {
		if n := done(); n < inserted || s.status("analytics").Position.High < int64(inserted) {
			return fmt.Errorf("%d of %d effects; status %+v", n, inserted, s.status("analytics"))
		}
		return nil
	})
	if at := s.status("analytics"); at.DeadLetters != 0 || at.Paused != nil {
		t.Errorf("status %+v", at)
	}
	for _, c := range replicas {
		c.signal(syscall.SIGTERM)
		c.wait(30 * time.Second)
	}
	wantEffectsOnce(t, s.pool, effects)
	repeats := strings.Count(receiver.log.String()+receiver.child.stderr.String(), `"event came again"`)
	t.Logf("%d events, %d kills of each side, %d repeats without effect, %v", inserted, kills, repeats, time.Since(began).Round(time.Second))
}

// The exporter is killed at each named point around send and record, while
// Docket writes with late commits and rollbacks.
func TestKilledOverWebhook(t *testing.T) {
	t.Parallel()
	receiver, effects := newReceiverProcess(t)
	s := newSite(t)
	s.webhook("http://" + receiver.addr)
	s.killedWhileWriting(min(rounds(t), 1))
	wantEffectsOnce(t, s.pool, effects)
}

// wantEffectsOnce compares the receiver's effects with Docket's table.
func wantEffectsOnce(t *testing.T, docket, effects *pgxpool.Pool) {
	t.Helper()
	type row struct {
		RunID   string
		Seq, ID int64
	}
	read := func(pool *pgxpool.Pool, query string) []row {
		rows, err := pool.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	times, last := map[row]int{}, map[string]int64{}
	for _, r := range read(effects, "SELECT run_id, seq, event_id FROM received ORDER BY n") {
		if times[r]++; times[r] > 1 {
			t.Errorf("%s/%d had its effect %d times", r.RunID, r.Seq, times[r])
		}
		if r.Seq <= last[r.RunID] {
			t.Errorf("%s/%d had its effect after %d", r.RunID, r.Seq, last[r.RunID])
		}
		last[r.RunID] = r.Seq
	}
	want := read(docket, "SELECT run_id, seq, id FROM docket_events")
	for _, r := range want {
		if times[r] == 0 {
			t.Errorf("%s/%d had no effect", r.RunID, r.Seq)
		}
	}
	if len(times) != len(want) {
		t.Errorf("%d effects of %d events", len(times), len(want))
	}
	if n := pgtest.Value[int64](t, effects, "SELECT coalesce(sum(events), 0)::bigint FROM progress"); n != int64(len(want)) {
		t.Errorf("the runs have counted %d events of %d", n, len(want))
	}
}

// What a receiver sends unasked does not come into the log: it may be our own
// secrets.
func TestUnaskedAnswersAreNotRepeated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	asked, recorded, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer close(ended)
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		close(asked)
		<-recorded
		_, _ = io.WriteString(conn, r.Header.Get("Authorization")) // on a connection that is idle by now
		_, _ = io.Copy(io.Discard, conn)                           // until it is closed for that
	}))
	t.Cleanup(server.Close)
	s.webhook(server.URL)
	s.env["CONSUMER_ANALYTICS_WEBHOOK_AUTHORIZATION"] = "Bearer hush-hush"
	s.insert("r", 1)
	c := start(t, s.env, "", "run")
	<-asked
	pgtest.Until(t, 30*time.Second, "the record of the event", func() bool { return s.status("analytics").Position.High > 0 })
	close(recorded)
	<-ended
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitOK || strings.Contains(c.stderr.String(), "hush") {
		t.Errorf("exit code %d\n%s", code, c.stderr)
	}
}

// answering is a receiver in this process that answers as told.
func answering(t *testing.T, reply func(run string, seq, attempt int) int) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		seq, _ := strconv.Atoi(r.Header.Get("X-Docket-Seq"))
		attempt, _ := strconv.Atoi(r.Header.Get("X-Attempt"))
		w.WriteHeader(reply(r.Header.Get("X-Docket-Run-Id"), seq, attempt))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hush-hush", asked
}

// A rejected event becomes a dead letter, those refused for a while come again,
// and nothing that was accepted does.
func TestWebhookRejectsAndRefuses(t *testing.T) {
	s := newSite(t)
	var mu sync.Mutex
	accepted := map[string]int{}
	url, asked := answering(t, func(run string, seq, attempt int) int {
		name := fmt.Sprint(run, "/", seq)
		switch {
		case name == "a/3" || name == "c/1":
			return http.StatusUnprocessableEntity
		case name == "b/2" && attempt < 4:
			return http.StatusServiceUnavailable
		}
		mu.Lock()
		defer mu.Unlock()
		accepted[name]++
		return http.StatusNoContent
	})
	s.webhook(url)
	for _, run := range []string{"a", "b", "c"} {
		s.insert(run, 5)
	}
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up")
	if at := s.status("analytics"); at.DeadLetters != 2 || at.Position.High != 15 {
		t.Errorf("status %+v", at)
	}
	if len(accepted) != 13 {
		t.Errorf("accepted: %v", accepted)
	}
	for name, n := range accepted {
		if n != 1 {
			t.Errorf("%s was accepted %d times", name, n)
		}
	}
	t.Logf("%d requests", asked.Load())
	reasons := pgtest.Value[string](t, s.pool, "SELECT string_agg(DISTINCT class || ': ' || reason, '; ') FROM docket_export.dead_letters")
	if want := exporter.ClassRefused + ": 422 Unprocessable Entity"; reasons != want {
		t.Errorf("reasons %q, want %q", reasons, want)
	}
}

// What only a person can mend pauses the consumer and skips nothing.
func TestWebhookPauses(t *testing.T) {
	s := newSite(t)
	status := atomic.Int64{}
	status.Store(http.StatusUnauthorized)
	url, _ := answering(t, func(string, int, int) int { return int(status.Load()) })
	s.webhook(url)
	s.insert("a", 5)
	command(t, s.env, "run", "--once").want(t, exitPerson, "401 Unauthorized", "one of CONSUMER_ANALYTICS_WEBHOOK_SECRETS,", "both sides are right")
	if at := s.status("analytics"); at.Paused == nil || at.DeadLetters != 0 || at.Position.High != 0 {
		t.Fatalf("status %+v", at)
	}
	status.Store(http.StatusOK)
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "secret corrected").want(t, exitOK)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 5")
}

// Configuration that is wrong or a receiver that may not be dialled is said by
// check, which sends nothing, and no message repeats what is secret.
func TestWebhookCheck(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, asked := answering(t, func(string, int, int) int { return http.StatusOK })
	s.webhook(url)
	s.insert("a", 1)
	for _, c := range []struct {
		name, value string
		code        int
		says        string
	}{
		{"", "", exitOK, "no event was sent"},
		{"ALLOW_PRIVATE", "", exitPerson, "not public"},
		{"ALLOW_PRIVATE", "10.0.0.0/8,192.168.0.0/16", exitPerson, "127.0.0.1"},
		{"ALLOW_PRIVATE", "true", exitOK, "no event was sent"},
		{"ALLOW_PRIVATE", "127.0.0.1", exitOK, "no event was sent"},
		{"ALLOW_PRIVATE", "everything", exitUsage, "is not a network"},
		{"SECRETS", "", exitUsage, "CONSUMER_ANALYTICS_WEBHOOK_SECRETS"},
		{"SECRETS", webhookSecret + ",hush-hush", exitUsage, "secret 2 of"},
		{"SECRETS", webhookSecret + ", " + webhookSecret, exitOK, "no event was sent"},
		{"URL", "", exitUsage, "CONSUMER_ANALYTICS_WEBHOOK_URL"},
		{"URL", "hush-hush", exitUsage, "_WEBHOOK_URL"},
		{"URL", "http://127.0.0.1:1/hush-hush", exitFailed, "127.0.0.1:1"},
		{"FORMAT", "xml", exitUsage, "is not a format"},
		{"TLS_CERT_FILE", "cert.pem", exitUsage, "belong together"},
		{"TIMEOUT", "1ms", exitUsage, "at least 100ms"},
	} {
		before := s.env["CONSUMER_ANALYTICS_WEBHOOK_"+c.name]
		if c.name != "" {
			s.env["CONSUMER_ANALYTICS_WEBHOOK_"+c.name] = c.value
		}
		r := command(t, s.env, "check")
		r.want(t, c.code, c.says)
		if strings.Contains(r.stdout+r.stderr, "hush") {
			t.Errorf("%s=%s: a secret is repeated:\n%s%s", c.name, c.value, r.stdout, r.stderr)
		}
		if c.name != "" {
			s.env["CONSUMER_ANALYTICS_WEBHOOK_"+c.name] = before
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("check has sent %d requests", n)
	}
}

// An answer that is lost, and a receiver that is slow, end with the lease.
func TestWebhookStopsOnSigterm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url, asked := answering(t, func(string, int, int) int { <-ctx.Done(); return http.StatusOK })
	s.webhook(url)
	s.env["EXPORTER_SHUTDOWN_GRACE"] = "1s"
	s.insert("a", 3)
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 30*time.Second, "a request", func() bool { return asked.Load() > 0 })
	c.signal(syscall.SIGTERM)
	if code := c.wait(10 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	if at := s.status("analytics"); at.Position.High != 0 || at.DeadLetters != 0 || at.Owner != "" {
		t.Errorf("status %+v", at)
	}
}
