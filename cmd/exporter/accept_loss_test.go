package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// insertAged writes events of a run that began, and were inserted, ago.
func (s *site) insertAged(run string, from, to int, ago time.Duration) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, `INSERT INTO docket_runs (run_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
		SELECT $1, 'chain', 'hash', 'running', '\x83', gen_random_uuid(), t, t, t, t FROM (SELECT now() - $2::float8 * interval '1 second' AS t) x ON CONFLICT DO NOTHING`,
		run, ago.Seconds())
	pgtest.Exec(s.t, s.pool, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT $1, n, 'node_completed', 0, $4, $4, t, t FROM generate_series($2::int, $3::int) n, (SELECT now() - $5::float8 * interval '1 second' AS t) x ORDER BY n`,
		run, from, to, docketsim.EncodeEvent(map[string]any{}), ago.Seconds())
}

// prune makes passes of Docket's pruner until one deletes nothing.
func (s *site) prune(kept time.Duration) (deleted int64) {
	s.t.Helper()
	for {
		done, err := docketsim.Pruner{Schema: "public", Events: kept}.Pass(s.t.Context(), s.pool)
		if err != nil {
			s.t.Fatal(err)
		}
		if deleted += done.Events; done.Events == 0 {
			return deleted
		}
	}
}

const day = 24 * time.Hour

// overtaken is a consumer that stopped five days ago at id 100; of the hundred
// events after it the pruner has deleted fifty.
func overtaken(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.env["RETENTION_EVENTS"] = "1d"
	s.insertAged("before", 1, 100, 5*day)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 100")
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET read_at = read_at - interval '5 days'`)
	s.insertAged("gone", 1, 30, 3*day)                 // 101 to 130
	s.insertAged("broken", 1, 20, 2*day)               // 131 to 150
	s.insertAged("broken", 21, 70, 2*day-30*time.Hour) // 151 to 200
	if n := s.prune(day); n != 150 {
		t.Fatalf("%d events pruned", n)
	}
	return s
}

func (s *site) wantLoss(state string) {
	s.t.Helper()
	args := []string{"cursor", "losses", "analytics", "--json"}
	if state == "accepted" {
		args = append(args, "--all")
	}
	var got []lossReport
	if err := json.Unmarshal([]byte(command(s.t, s.env, args...).stdout), &got); err != nil {
		s.t.Fatal(err)
	}
	if len(got) != 1 {
		s.t.Fatalf("losses %+v", got)
	}
	l := got[0]
	var runs []string
	for _, r := range l.Runs {
		runs = append(runs, r.String())
	}
	slices.Sort(runs)
	if l.Kind != "pruned" || l.FirstID != 101 || l.LastID != 150 || l.AtMost != 50 || l.IDs != "{[101,150]}" || !l.Certain ||
		!slices.Equal(runs, []string{"broken/1-20", "gone/1-"}) || (l.AcceptedAt != nil) != (state == "accepted") {
		s.t.Fatalf("loss %+v, runs %v", l, runs)
	}
	if l.Since == nil || time.Since(*l.Since) < 5*day-time.Hour || time.Since(*l.Until) < day-time.Hour || time.Since(*l.Until) > day+time.Hour {
		s.t.Errorf("window %v to %v", l.Since, l.Until)
	}
}

func TestThePrunerOvertakesAConsumerThatContinues(t *testing.T) {
	s := overtaken(t)
	r := command(t, s.env, "run", "--once")
	r.want(t, exitOK, "caught up at 200", "events may be lost", "broken/1-20")
	if got := s.delivered("analytics"); len(got) != 150 || got[100] != "broken/21" {
		t.Fatalf("%d events delivered", len(got))
	}
	s.wantLoss("open")
	command(t, s.env, "status").want(t, exitPerson, "exporter cursor losses analytics")
	command(t, s.env, "cursor", "losses", "analytics").want(t, exitOK, "101-150", "50 events", "broken/1-20")
	view := `SELECT concat_ws(' ', consumer, kind, state, first_id, last_id, at_most_events, certain) FROM docket_export.export_losses`
	if got := pgtest.Value[string](t, s.pool, view); got != "analytics pruned open 101 150 50 t" {
		t.Errorf("the view says %q", got)
	}

	accept := []string{"cursor", "accept-loss", "analytics", "--all"}
	command(t, s.env, accept...).want(t, exitUsage, "--reviewed-by")
	command(t, s.env, "cursor", "accept-loss", "analytics", "--loss", "77", "--reviewed-by", "eve", "--reason", "x").want(t, exitUsage, "not open")
	accept = append(accept, "--reviewed-by", "eve", "--reason", "seen")
	command(t, s.env, accept...).want(t, exitOK, "accepted 1 loss of analytics")
	command(t, s.env, accept...).want(t, exitOK, "no open loss")
	command(t, s.env, "status").want(t, exitOK)
	s.wantLoss("accepted")
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 200")
	s.wantLoss("accepted") // and no other one
}

func TestThePrunerOvertakesAConsumerThatHalts(t *testing.T) {
	t.Parallel()
	s := overtaken(t)
	s.env["CONSUMER_ANALYTICS_ON_LOSS"] = "halt"
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the pause", func() bool { return s.status("analytics").Paused != nil })
	if p := s.status("analytics"); p.Paused.Reason != "possible_loss" || p.Position.String() != "150" {
		t.Fatalf("paused for %+v at %s", p.Paused, p.Position)
	}
	s.wantLoss("open")
	if got := s.delivered("analytics"); len(got) != 100 {
		t.Fatalf("%d events delivered behind the gap", len(got)-100)
	}
	samples, _ := c.scrape()
	if samples["losses_total{analytics}"] != 1 || samples["losses_open{analytics}"] != 1 || samples["lost_events_open{analytics}"] != 50 {
		t.Errorf("losses %v, open %v with %v events", samples["losses_total{analytics}"], samples["losses_open{analytics}"], samples["lost_events_open{analytics}"])
	}
	command(t, s.env, "status").want(t, exitPerson, "accept-loss")
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "in a hurry").want(t, exitPerson, "accept-loss")

	command(t, s.env, "cursor", "accept-loss", "analytics", "--all", "--reviewed-by", "eve", "--reason", "rebuilt elsewhere").
		want(t, exitOK, "accepted 1 loss of analytics; it may go on after 150")
	s.await("analytics", 150)
	s.wantLoss("accepted")
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*) FROM docket_export.audit WHERE command = 'accept-loss' AND who = 'eve' AND reason = 'rebuilt elsewhere'`); n != 2 {
		t.Errorf("%d audit rows, want one of the loss and one of the consumer", n)
	}
	if p := s.status("analytics"); p.Paused != nil || p.Losses != 0 {
		t.Errorf("status %+v", p)
	}
}

// While it is not known whether old ids are lost, nothing behind them is
// delivered, and status says for whom it waits.
func TestAHaltThatWaitsSaysForWhom(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["RETENTION_EVENTS"], s.env["CONSUMER_ANALYTICS_ON_LOSS"], s.env["EXPORTER_LEASE_TTL"] = "1d", "halt", "2s"
	s.insertAged("before", 1, 100, 5*day)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET read_at = read_at - interval '5 days'`)
	open := pgtest.Connect(t, s.dsn)
	pgtest.Exec(t, open, `SET application_name = 'a console'`)
	pgtest.Exec(t, open, `BEGIN`)
	pgtest.Exec(t, open, `SELECT nextval('docket_events_id_seq')`) // 101
	s.insertAged("gone", 1, 10, 3*day)                             // 102 to 111
	s.prune(day)
	s.insertAged("next", 1, 5, 0)
	start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the reason", func() bool {
		return strings.Contains(s.status("analytics").LastError, `"a console"`)
	})
	command(t, s.env, "status").want(t, exitOK, "stuck", "ids 101 to 111 may be lost", `"a console"`, "nothing behind them is delivered")
	pgtest.Exec(t, open, `ROLLBACK`)
	pgtest.Until(t, 20*time.Second, "the pause", func() bool { return s.status("analytics").Paused != nil })
	if got := len(s.delivered("analytics")); got != 100 {
		t.Errorf("%d events delivered", got)
	}
}

// The retention is told too long: what the table shows counts, and is warned of.
func TestThePrunerOvertakesWhileTheRetentionIsToldTooLong(t *testing.T) {
	s := overtaken(t)
	s.env["RETENTION_EVENTS"] = "30d"
	command(t, s.env, "check").want(t, exitOK, "RETENTION_EVENTS is 30d, but the oldest event is only 18h old")
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 200", "RETENTION_EVENTS is 30d, but", "against a RETENTION_EVENTS of 30d", "broken/1-20, gone/1-")
	command(t, s.env, "status").want(t, exitPerson, "exporter cursor losses")
	if got := len(s.delivered("analytics")); got != 150 {
		t.Errorf("%d events delivered", got)
	}
}

// A killed owner repeats no record and forgets none.
func TestALossIsRecordedOnceAcrossCrashes(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"accepted 1", "recorded 1", "mid-deliver 1", "accepted 2", "recorded 2"} {
		t.Run(point, func(t *testing.T) {
			s := overtaken(t)
			c := start(t, s.env, point, "run")
			c.awaitLine("at " + strings.Fields(point)[0])
			c.kill()
			pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET lease_until = now() - interval '1 second'`)
			command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 200")
			s.wantLoss("open")
		})
	}
}

// Ids that were rolled back are no loss, nor is a filter, nor a late start.
func TestNoLossWhereNothingIsLost(t *testing.T) {
	s := newSite(t)
	s.env["RETENTION_EVENTS"] = "1d"
	s.insertAged("old", 1, 20, 3*day)
	s.prune(day)
	s.also("feed")
	s.env["CONSUMER_FEED_TYPES"] = "none_such"
	for i := range 5 {
		pgtest.Exec(t, s.pool, `SELECT nextval('docket_events_id_seq') FROM generate_series(1, 7)`)
		s.insert(fmt.Sprint("r", i), 3)
		command(t, s.env, "run", "--once").want(t, exitOK)
	}
	for _, consumer := range []string{"analytics", "feed"} {
		command(t, s.env, "cursor", "losses", consumer).want(t, exitOK, "no losses")
	}
	command(t, s.env, "status").want(t, exitOK)
	if got := len(s.delivered("analytics")); got != 15 {
		t.Errorf("%d events delivered", got)
	}
}

// A consumer that is always a little behind while transactions roll back, burn
// ids and commit late loses nothing, and says so.
func TestNoLossUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["RETENTION_EVENTS"] = "1d"
	s.env["CONSUMER_ANALYTICS_ON_LOSS"] = "halt"
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "20"
	writer := docketsim.NewWriter(pgtest.Pool(t, s.dsn+"&pool_max_conns=8"), "public")
	writer.Concurrency, writer.Rate, writer.SlowMax, writer.Rollback, writer.Burn = 8, 400, 300*time.Millisecond, 0.3, 0.3
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Run(ctx) }()
	c := start(t, s.env, "", "run")
	s.await("analytics", 1200)
	stop()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	s.await("analytics", int(writer.Stats().Events))
	if status := s.status("analytics"); status.Losses != 0 || status.Paused != nil {
		t.Fatalf("status %+v\n%s", status, c.stderr)
	}
	if writer.Stats().RolledBack == 0 || writer.Stats().Burned == 0 {
		t.Errorf("the writer lost no ids: %+v", writer.Stats())
	}
	c.signal(syscall.SIGTERM)
	c.wait(30 * time.Second)
	command(t, s.env, "cursor", "losses", "analytics", "--all").want(t, exitOK, "no losses")
}
