package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestStatusShowsTheLag(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	s.insert("r", 2)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, "UPDATE docket_events SET inserted_at = now() - interval '90 minutes' WHERE id = 3")
	lag := func() consumerReport {
		t.Helper()
		var got statusReport
		if err := json.Unmarshal([]byte(command(t, s.env, "status", "--json").stdout), &got); err != nil || len(got.Consumers) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		return got.Consumers[0]
	}
	r := lag()
	if r.LagEvents == nil || *r.LagEvents != 3 || !*r.LagExact || *r.LagSeconds < 5400 || *r.LagSeconds > 5500 {
		t.Errorf("got %v events, %v seconds", r.LagEvents, r.LagSeconds)
	}
	s.env["CONSUMER_ANALYTICS_TYPES"] = "run_*"
	for _, c := range []struct {
		told any // by the owner
		want int64
	}{{`{}`, 3}, {`{"types": ["run_*"]}`, 0}, {`{"graphs": ["!chain"]}`, 0}, {nil, 0}} {
		pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET filter = $1`, c.told)
		if r = lag(); r.LagEvents == nil || *r.LagEvents != c.want || (*r.LagSeconds == 0) != (c.want == 0) {
			t.Errorf("with the owner's filter %v: %v events, want %d", c.told, r.LagEvents, c.want)
		}
	}
	s.env["EXPORT_DATABASE_URL"], s.env["DOCKET_DATABASE_URL"] = s.dsn, "postgres://"+closedPort(t)+"/app"
	unknown := command(t, s.env, "status")
	unknown.want(t, exitOK, "?", "the lag is unknown", "DOCKET_DATABASE_URL")
	if r = lag(); r.LagEvents != nil || r.LagSeconds != nil {
		t.Error("an unknown lag has a value")
	}
}

func TestStatusNamesTheStatementThatEndsAHolder(t *testing.T) {
	for _, x := range []struct {
		holder holder
		want   string
	}{
		{holder{PID: 937}, "SELECT pg_terminate_backend(937);"},
		{holder{Prepared: "it's"}, "ROLLBACK PREPARED 'it''s';"},
	} {
		x.holder.Since = time.Now()
		r := consumerReport{State: "running", OpenIDs: 1, Holders: []exporter.Holder{x.holder}}
		if next := fmt.Sprint(r.next()); !strings.Contains(next, x.want) {
			t.Errorf("next is %q", next)
		}
	}
}

func TestStatusNamesTheSchema(t *testing.T) {
	r := consumerReport{DeadLetters: 1, Losses: 2, schema: "jobs_export"}
	var b strings.Builder
	writeDetails(&b, &r)
	for _, want := range []string{"1 event as dead", "jobs_export.export_dead_letters", "2 ranges", "jobs_export.losses"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in %s", want, b.String())
		}
	}
}

func TestStatusHasTheHeadroom(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"], s.env["RETENTION_EVENTS"] = "off", "4h"
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insertAged("r", 1, 3, 3*time.Hour)
	command(t, s.env, "status").want(t, exitOK, "HEADROOM", "(25 %)", "59m 5", "3h")
	command(t, s.env, "status", "--rates").want(t, exitOK, "OUT/S", "never")
	s.env["RETENTION_EVENTS"] = "soon"
	r := command(t, s.env, "status")
	r.want(t, exitOK, "RETENTION_EVENTS is not used")
	if strings.Contains(r.stdout, "HEADROOM") {
		t.Error("a headroom is shown that is not known")
	}
}

// The views say what status says.
func TestStatusAndViewsAgree(t *testing.T) {
	env, _, feed := stateful(t)
	hole := time.Minute
	err := feed.Renew(t.Context(), cursor.Heartbeat{Oldest: &hole, CaughtUp: &hole, Polled: new(time.Duration), Holders: []exporter.Holder{
		{Transaction: "5/16", PID: 4711, Application: "psql", User: "app", State: "idle in transaction", Since: time.Now()},
		{Transaction: "-1/749", Prepared: "import", Since: time.Now()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, env["DOCKET_DATABASE_URL"])
	pgtest.Exec(t, pool, `INSERT INTO docket_export.losses (consumer_uid, consumer, kind, batch, first_id, last_id, events, reason)
		SELECT uid, name, 'pruned', 1, n, n + 6, 7, 'gone' FROM docket_export.consumers, unnest(ARRAY[1, 101]) n WHERE name = 'feed'`)
	var report statusReport
	if err := json.Unmarshal([]byte(command(t, env, "status", "--json").stdout), &report); err != nil || len(report.Consumers) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	for i := range report.Consumers {
		r := &report.Consumers[i]
		want := fmt.Sprintf("%s %d %d %d %d %d %d %v", r.State, r.High, r.OpenIDs, r.OpenRanges, r.Epoch, r.Losses, r.LostEvents, r.ProgressAt == nil)
		got := pgtest.Value[string](t, pool, `SELECT concat_ws(' ', state, high_id, open_ids, open_ranges, epoch, losses, lost_events, CASE WHEN progress_at IS NULL THEN 'true' ELSE 'false' END)
			FROM docket_export.export_status WHERE consumer = $1`, r.Consumer)
		if got != want {
			t.Errorf("the view says %q of %s, status %q", got, r.Consumer, want)
		}
	}
	if r := report.Consumers[0]; r.LostEvents != 14 || r.Condition != conditionLoss || len(r.OpenLosses) != 2 {
		t.Errorf("got %+v", r)
	}
	held := pgtest.Value[string](t, pool, `SELECT held_by FROM docket_export.export_holes WHERE consumer = 'feed' AND oldest_since < clock_timestamp()`)
	if !strings.HasPrefix(held, "pid 4711 psql app idle in transaction since ") || !strings.Contains(held, "; prepared import since ") {
		t.Errorf("held by %q", held)
	}
}

// Whom an owner saw keep ids open may have ended since it stopped looking: his
// process id may be somebody else's by now, so nobody is told to end it.
func TestNobodyIsBlamedOnceNobodyLooks(t *testing.T) {
	env, store, feed := stateful(t)
	hole := time.Minute
	err := feed.Renew(t.Context(), cursor.Heartbeat{Oldest: &hole, Holders: []exporter.Holder{{Transaction: "5/16", PID: 4711, Since: time.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	command(t, env, "status").want(t, exitOK, "pid 4711", "pg_terminate_backend(4711)")
	if err := feed.Release(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"cursor", "show", "feed"}} {
		r := command(t, env, args...)
		r.want(t, exitOK, "120345-{[120300,120301]}")
		if strings.Contains(r.stdout, "4711") || strings.Contains(r.stdout, "oldest_hole_at") {
			t.Errorf("%s:\n%s", args, r.stdout)
		}
	}
	pool := pgtest.Pool(t, env["DOCKET_DATABASE_URL"])
	if n := pgtest.Value[int](t, pool, `SELECT count(*) FROM docket_export.export_holes WHERE consumer = 'feed' AND held_by IS NULL AND oldest_since IS NULL`); n != 1 {
		t.Errorf("the view blames somebody, or has no hole")
	}
	k, err := store.Get(t.Context(), "feed")
	if err != nil {
		t.Fatal(err)
	}
	if c := consumerOf(&k, &cursor.Scope{}); c.OldestHole != nil || c.OpenHoles != 1 {
		t.Errorf("%d holes, the oldest open for %v", c.OpenHoles, c.OldestHole)
	}
}

// On a terminal states have colours, unless NO_COLOR is set, and --watch shows
// the next reading in the place of the last one.
func TestStatusOnATerminal(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	s.insert("r", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.env["TERM"] = "xterm"
	if got := onTerminal(t, t.Context(), s.env, "status"); !strings.Contains(got, "\x1b[33munowned\x1b[0m") {
		t.Errorf("no colour: %q", got)
	}
	s.env["NO_COLOR"] = "1"
	if got := onTerminal(t, t.Context(), s.env, "status"); strings.Contains(got, "\x1b") || !strings.Contains(got, "unowned") {
		t.Errorf("got %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	got := onTerminal(t, ctx, s.env, "status", "--watch=300ms")
	if n := strings.Count(got, "\x1b[H"); n < 3 || strings.Count(got, "\x1b[2J") != 1 || !strings.Contains(got, "needs a look\x1b[K") || !strings.Contains(got, "OUT/S") {
		t.Errorf("%d readings: %q", n, got)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var lines bytes.Buffer
	if code := Main(ctx, []string{"status", "--watch=300ms", "--json"}, environ(s.env), strings.NewReader(""), &lines, io.Discard); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(lines.String()) {
		if err := json.Unmarshal([]byte(line), new(map[string]any)); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	command(t, s.env, "status", "--watch=1ms").want(t, exitUsage, "too often")
}

// onTerminal runs a command line whose stdout is a terminal, and returns what
// the terminal got.
func onTerminal(t *testing.T, ctx context.Context, env map[string]string, args ...string) string { //nolint:revive // t first, as everywhere
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	far, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(near) // ends with an error when the far end is closed
		got <- string(text)
	}()
	Main(ctx, args, environ(env), strings.NewReader(""), far, io.Discard)
	far.Close()
	return strings.ReplaceAll(<-got, "\r\n", "\n")
}

// What cannot be told is absent, and infinite is a word.
func TestStatusReportInJSON(t *testing.T) {
	never, soon := span(math.Inf(1)), span(1.5)
	text, err := json.Marshal(consumerReport{CatchUp: &never, LossETA: &soon})
	if err != nil {
		t.Fatal(err)
	}
	for want, there := range map[string]bool{`"catch_up_seconds":"never"`: true, `"loss_eta_seconds":1.5`: true, "lag_seconds": false, "headroom": false, "per_second": false} {
		if strings.Contains(string(text), want) != there {
			t.Errorf("%q in the report: %v\n%s", want, !there, text)
		}
	}
}

func TestStatusConditions(t *testing.T) {
	zero, some, exact, age, low := int64(0), int64(3), true, 60.0, 0.3
	for _, x := range []struct {
		want     condition
		sentence string
		report   consumerReport
	}{
		{conditionLoss, "events may be lost; paused by ada", consumerReport{Losses: 1, Paused: &pauseReport{By: "ada", Reason: "operator"}}},
		{conditionPaused, "paused: source changed", consumerReport{Paused: &pauseReport{By: "exporter", Reason: "source_changed"}, LastError: "x"}},
		{conditionUnowned, "unowned: no process works on it", consumerReport{State: "unowned", LagEvents: &some}},
		{conditionStuck, "stuck: the same is tried again until it works", consumerReport{State: "running", LastError: "refused", LagEvents: &some}},
		{conditionNearLoss, "1m behind", consumerReport{State: "running", LagEvents: &some, LagSeconds: &age, Ratio: &low}},
		{conditionUnknown, "running; how far behind is unknown", consumerReport{State: "running"}},
		{conditionBehind, "1m behind", consumerReport{State: "running", LagEvents: &some, LagExact: &exact, LagSeconds: &age}},
		{conditionEmpty, "nothing to deliver yet", consumerReport{State: "running", LagEvents: &zero, LagSeconds: new(float64)}},
		{conditionHealthy, "caught up", consumerReport{State: "running", LagEvents: &zero, LagSeconds: new(float64), EventsAccepted: 1}},
		{conditionFinished, "finished", consumerReport{State: "finished"}},
	} {
		x.report.judge()
		if x.report.Condition != x.want || x.report.Words != x.sentence {
			t.Errorf("got %s, %q; want %s, %q", x.report.Condition, x.report.Words, x.want, x.sentence)
		}
	}
}

// Whoever may let a consumer go on is told first what waiting costs.
func TestStatusTellsOfDeletionFirst(t *testing.T) {
	kept := 1000.0
	for _, x := range []struct {
		report consumerReport
		left   float64
		first  string
	}{
		{consumerReport{State: "paused", Paused: &pauseReport{Reason: "operator"}}, 120, "in 2m Docket begins to delete"},
		{consumerReport{State: "paused", Paused: &pauseReport{Reason: "sink"}}, -120, "older than Docket keeps them, since 2m; Docket deletes"},
		{consumerReport{State: "unowned"}, -120, "older than Docket keeps them, since 2m; Docket deletes"},
		{consumerReport{State: "paused", Paused: &pauseReport{Reason: "operator"}}, 500, "when it may go on"},
		{consumerReport{State: "running", LastError: "refused"}, 120, "see whether sink"},
	} {
		ratio := x.left / kept
		x.report.Headroom, x.report.Ratio = &x.left, &ratio
		if all := x.report.next(); len(all) == 0 || !strings.Contains(all[0].Text, x.first) {
			t.Errorf("%s with %v s left: %v, want first %q", x.report.State, x.left, all, x.first)
		}
	}
}

// Nobody sends what is in flight of a consumer that nobody owns.
func TestStatusOfAPausedBatch(t *testing.T) {
	for state, sends := range map[string]bool{"running": true, "paused": false, "unowned": false} {
		var b strings.Builder
		writeDetails(&b, &consumerReport{State: state, Batch: 2, InFlight: 3, Attempt: 8, LastError: "refused"})
		if strings.Contains(b.String(), "sending") != sends {
			t.Errorf("%s: %s", state, &b)
		}
	}
}

func TestStatusNumbers(t *testing.T) {
	for want, s := range map[string]float64{
		"0s": 0, "0.4s": 0.42, "9s": 9, "59s": 59.9, "1m": 60, "3m 20s": 200, "4h 12m": 15120, "13d 4h": 13*86400 + 4*3600 + 59, "14d": 14 * 86400, "-2m": -120,
	} {
		if got := rough(s); got != want {
			t.Errorf("rough(%v) is %q, want %q", s, got, want)
		}
	}
	for want, n := range map[string]int64{"0": 0, "999": 999, "1,000": 1000, "-12,345,678": -12345678, "9,223,372,036,854,775,807": math.MaxInt64} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) is %q, want %q", n, got, want)
		}
	}
}
