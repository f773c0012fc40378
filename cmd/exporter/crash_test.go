package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
)

// rounds scales the tests that repeat at random.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ROUNDS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROUNDS=%q is not a number of rounds", text)
	}
	return n
}

// killedWhileWriting kills the exporter at each named point and after random
// progress while Docket writes, starts it again with another batch size, and
// lets it catch up in the end.
func (s *site) killedWhileWriting(rounds int) {
	t := s.t
	t.Helper()
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	rng := rand.New(rand.NewPCG(3, 4))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	writer := docketsim.NewWriter(pgtest.Pool(t, s.dsn+"&pool_max_conns=8"), "public")
	writer.Concurrency, writer.Rate, writer.SlowMax = 8, 300, 300*time.Millisecond
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Run(ctx) }()
	for range rounds {
		for _, point := range []string{beforeBegin, afterBegin, midDeliver, accepted, recorded, ""} {
			s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = fmt.Sprint(1 + rng.IntN(400))
			fault := ""
			if point != "" {
				fault = fmt.Sprint(point, " ", 1+rng.IntN(3))
			}
			before := s.high()
			c := start(t, s.env, fault, "run")
			if point != "" {
				c.awaitLine("at " + point)
			} else {
				pgtest.Until(t, 30*time.Second, "progress", func() bool { return s.high() > before })
			}
			c.kill()
			if at := s.high(); at < before {
				t.Fatalf("%s: the position went back from %d to %d", point, before, at)
			}
		}
	}
	stop()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	pgtest.Until(t, 10*time.Second, "the lease of the killed owner to expire", func() bool { return !s.status("analytics").LeaseLive })
	command(t, s.env, "run", "--once").want(t, exitOK)
}

// Wherever the exporter is killed, afterwards the files hold what the table
// holds: every event, in order per run. The file sink reads back what it had
// written, so nothing is doubled either.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.killedWhileWriting(rounds(t))
	r, err := verdict.Read(t.Context(), s.pool, "public", nil, s.env["CONSUMER_ANALYTICS_FILE_DIR"], "analytics")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if !r.Clean() || r.Events < 100 {
		t.Fatalf("%s\n%v", r, r.Examples)
	}
}

// high is the consumer's High, 0 while it does not exist.
func (s *site) high() int64 {
	s.t.Helper()
	return pgtest.Value[int64](s.t, s.pool, `SELECT coalesce(max(high_id), 0) FROM docket_export.consumers`)
}

// Rows of a batch in flight that are pruned between the crash and the restart
// are a loss of which nobody knows whether the sink has them; the others come.
func TestRowsPrunedBetweenCrashAndRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("r", 6)
	c := start(t, s.env, midDeliver+" 1", "run")
	c.awaitLine("at " + midDeliver)
	c.kill()
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE seq IN (2, 5)`)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET lease_until = now() - interval '1 second'`)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	for range 2 { // the second finds nothing to record again
		command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 6")
		view := `SELECT string_agg(concat_ws(' ', kind, state, first_id, last_id, at_most_events), ',') FROM docket_export.export_losses`
		if got := pgtest.Value[string](t, s.pool, view); got != "delivery_unknown open 1 6 2" {
			t.Fatalf("losses %q", got)
		}
	}
	command(t, s.env, "status").want(t, exitPerson, "exporter cursor losses analytics")
	came := map[string]int{}
	for _, e := range s.delivered("analytics") {
		came[e]++
	}
	for seq, most := range []int{1: 1, 2: 1, 3: 1, 4: 1, 5: 0, 6: 1} {
		if n := came[fmt.Sprintf("r/%d", seq)]; n > most || n < most && seq != 2 { // half of the batch had reached the sink
			t.Errorf("r/%d came %d times", seq, n)
		}
	}
}
