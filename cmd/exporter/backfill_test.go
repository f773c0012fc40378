package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// load fills the database with runs as Docket writes them, and returns how many
// events there are.
func (s *site) load(events int) int {
	s.t.Helper()
	if err := docketsim.Load(s.t.Context(), s.pool, "public", events, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
	return pgtest.Value[int](s.t, s.pool, `SELECT count(*)::int FROM docket_events`)
}

// guardLive makes every change of the live consumer's position an error, with a
// trigger, until the returned function is called.
func (s *site) guardLive() (release func()) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'the live cursor was touched'; END $$`)
	pgtest.Exec(s.t, s.pool, `CREATE TRIGGER untouched BEFORE UPDATE OR DELETE ON docket_export.consumers FOR EACH ROW
		WHEN (old.kind = 'live') EXECUTE FUNCTION refuse()`)
	return func() {
		pgtest.Exec(s.t, s.pool, `DROP TRIGGER untouched ON docket_export.consumers`)
	}
}

// lines returns "run/seq" of every line of the files of one name in the
// directory of analytics.
func (s *site) lines(name string) []string {
	s.t.Helper()
	env := s.env
	s.env = maps.Clone(env)
	s.env["CONSUMER_"+strings.ToUpper(name)+"_FILE_DIR"] = env["CONSUMER_ANALYTICS_FILE_DIR"]
	defer func() { s.env = env }()
	return s.delivered(name)
}

// unfinished returns the files of one name in the directory of analytics that a
// reader does not take.
func (s *site) unfinished(name string) []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.env["CONSUMER_ANALYTICS_FILE_DIR"], name+"-*.part"))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// accepted is how many events of a consumer are recorded; 0 before it exists.
func (s *site) accepted(name string) int64 {
	s.t.Helper()
	return pgtest.Value[int64](s.t, s.pool, `SELECT coalesce(max(events_accepted), 0) FROM docket_export.consumers WHERE name = $1`, name)
}

// spec is what a backfill is asked for, as it is stored.
func (s *site) spec(name string) string {
	s.t.Helper()
	return pgtest.Value[string](s.t, s.pool, `SELECT spec::text FROM docket_export.consumers WHERE name = $1`, name)
}

// awaitWords waits until stderr holds a text.
func (c *child) awaitWords(text string) {
	c.t.Helper()
	pgtest.Until(c.t, 30*time.Second, text, func() bool { return strings.Contains(c.stderr.String(), text) })
}

// begun is the name of the backfill that a command has begun.
func begun(t *testing.T, r result) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^(\S+_backfill_[0-9a-f]{8}\S*) (?:begins|goes on)`).FindStringSubmatch(r.stdout)
	if m == nil {
		t.Fatalf("no backfill has begun:\n%s\n%s", r.stdout, r.stderr)
	}
	return m[1]
}

// wantOnce fails unless got are exactly n events, each once.
func wantOnce(t *testing.T, got []string, n int) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(got))
	if once := len(slices.Compact(sorted)); once != n || len(got) != n {
		t.Fatalf("%d lines of %d events, want %d", len(got), once, n)
	}
}

func TestBackfill(t *testing.T) {
	s := newSite(t)
	s.insert("a", 30)
	s.insert("b", 20)
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "7"
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("b", 5) // above the position: it is the consumer's
	release := s.guardLive()
	ask := []string{"backfill", "--consumer", "analytics", "--from", "id:11"}
	r := command(t, s.env, ask...)
	r.want(t, exitOK, "begins at 10 and ends at 50", "is finished at 50; 40 events sent")
	name := begun(t, r)
	wantOnce(t, s.lines(name), 40)
	command(t, s.env, ask...).want(t, exitOK, name+" has finished", "--again")
	again := command(t, s.env, append(ask, "--again")...)
	again.want(t, exitOK, "40 events sent")
	if second := begun(t, again); second != name+"_2" {
		t.Errorf("the second one is %s", second)
	}
	release()
	list := command(t, s.env, "backfill", "list")
	list.want(t, exitOK, name, "finished", "100.0 %", "from id:11 to where analytics was")
	var shown backfillReport
	if err := json.Unmarshal([]byte(command(t, s.env, "backfill", "show", name, "--json").stdout), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.State != "finished" || shown.Share != 1 || shown.Events != 40 || shown.Position != "50" || shown.Until != "50" {
		t.Errorf("%+v", shown)
	}
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.wantAudit(name, "create", "finish")
	if status := command(t, s.env, "status"); strings.Contains(status.stdout, name) {
		t.Errorf("status shows a backfill that is done:\n%s", status.stdout)
	}
}

// wantAudit fails unless the audit of a consumer holds these commands.
func (s *site) wantAudit(consumer string, want ...string) {
	s.t.Helper()
	if got := pgtest.Value[[]string](s.t, s.pool, `SELECT array_agg(command ORDER BY id) FROM docket_export.audit WHERE consumer = $1`, consumer); !slices.Equal(got, want) {
		s.t.Errorf("audit of %s: %v, want %v", consumer, got, want)
	}
}

func TestBackfillRefuses(t *testing.T) {
	s := newSite(t)
	s.insert("a", 3)
	s.env["CONSUMER_ANALYTICS_TYPES"] = "node_*,!node_failed"
	from := []string{"backfill", "--consumer", "analytics", "--from", "earliest"}
	command(t, s.env, from...).want(t, exitUsage, "analytics has no cursor yet", "give --to")
	command(t, s.env, "run", "--once").want(t, exitOK)
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"backfill", "--consumer", "analytics"}, "wants --consumer and --from"},
		{[]string{"backfill", "--consumer", "feed", "--from", "earliest"}, "feed is not in EXPORTER_CONSUMERS"},
		{append(from, "--to", "id:9"), "below it"},
		{append(from, "--to", "earliest"), "there is nothing between"},
		{append(from, "--types", "run_*"), "selects nothing that analytics exports"},
		{append(from, "--types", "a*b"), "--types"},
		{append(from, "--runs", ""), "--runs is empty"}, // of a shell's empty variable; not all runs
		{append(from, "--runs", "nope,r*"), `--runs: no place in the events: run "nope" has no events`},
		{append(from, "--to", ""), "--to is empty"},
		{append(from, "--rate", "many"), "is not a rate"},
		{append(from, "--name", "analytics"), "needs a name of its own"},
		{append(from, "--name", "A"), "is not a name"},
		{append(from, "--name", strings.Repeat("n", 101)), "at most 100"}, // no file could have it
		{[]string{"backfill", "show", "nothing"}, "there is no backfill"},
		{[]string{"backfill", "show", "analytics"}, "there is no backfill"},
		{[]string{"replay", "--run", "nope", "--reason", "r"}, "has no events"},
		{[]string{"replay", "--run", "a"}, "wants --reason"},
	} {
		command(t, s.env, x.args...).want(t, exitUsage, x.want)
	}
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.consumers WHERE kind = 'backfill'`); n != 0 {
		t.Errorf("%d backfills were made", n)
	}
}

// A backfill narrows what its consumer exports, and never widens it.
func TestBackfillNarrowsTheFilter(t *testing.T) {
	for _, x := range []struct{ wide, narrower, want string }{
		{"", "a,b*", "a,b*"},
		{"a*", "", "a*"},
		{"node_*,run_*", "run_failed", "run_failed"},
		{"run_failed", "run_*", "run_failed"},
		{"node_*,!node_failed", "node_*,!node_done", "!node_done,!node_failed,node_*"},
		{"a", "b", "nothing"},
		{"a", "aa*", "nothing"},
		{"!x", "!y", "!x,!y"},
	} {
		parse := func(text string) (p Patterns) {
			if text != "" {
				if err := p.UnmarshalText([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			return p
		}
		both, ok := narrow(parse(x.wide), parse(x.narrower))
		got := strings.Join(both, ",")
		if !ok {
			got = "nothing"
		}
		if got != x.want {
			t.Errorf("%s and %s: %s, want %s", x.wide, x.narrower, got, x.want)
		}
	}
}

// What MAX_AGE kept back is sent by a backfill: a person has asked for it.
func TestBackfillSendsWhatIsOld(t *testing.T) {
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_MAX_AGE"] = "1h"
	s.insert("a", 3)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET occurred_at = now() - interval '2 hours'`)
	command(t, s.env, "run", "--once").want(t, exitOK)
	if n := s.letters("class = 'expired'"); n != 3 {
		t.Fatalf("%d expired", n)
	}
	r := command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest")
	r.want(t, exitOK, "3 events sent")
	wantOnce(t, s.lines(begun(t, r)), 3)
	if n := s.letters("true"); n != 3 {
		t.Errorf("%d dead letters", n)
	}
}

// Beginning with a backfill to a position and going on live from it has no gap
// and sends nothing twice, with a transaction that is open all the while.
func TestFromBackfillToLive(t *testing.T) {
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "7"
	s.insert("a", 20)
	late := pgtest.Connect(t, s.dsn)
	pgtest.Exec(t, late, "BEGIN")
	id := pgtest.Value[int64](t, late, "SELECT nextval('docket_events_id_seq')")
	s.insert("b", 20)
	var place placeReport
	if err := json.Unmarshal([]byte(command(t, s.env, "cursor", "show", "latest", "--json").stdout), &place); err != nil {
		t.Fatal(err)
	}
	s.insert("c", 20)
	if want := fmt.Sprintf("41-{[%d,%d]}", id, id); place.Position != want {
		t.Fatalf("latest is %s, want %s", place.Position, want)
	}
	r := command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--to", place.Position)
	r.want(t, exitOK, "is finished at "+place.Position, "40 events sent")
	s.env["CONSUMER_ANALYTICS_START"] = place.Position
	c := start(t, s.env, "", "run")
	s.await("analytics", 20)
	pgtest.Exec(t, late, `INSERT INTO docket_events (id, run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT $1, 'a', 21, type, step, payload, metadata, now(), now() FROM docket_events WHERE run_id = 'a' LIMIT 1`, id)
	pgtest.Exec(t, late, "COMMIT")
	s.await("analytics", 21)
	c.kill()
	wantOnce(t, append(s.lines(begun(t, r)), s.delivered("analytics")...), 61)
}

// A backfill that a person pauses gives its lease up, so that it goes on at
// once when it is called again.
func TestPausedBackfillIsFree(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 60)
	s.env["EXPORTER_LEASE_TTL"] = "60s"
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--rate", "20/s"}
	c := start(t, s.env, "", ask...)
	var name string
	pgtest.Until(t, 20*time.Second, "the backfill to begin", func() bool {
		name = pgtest.Value[string](t, s.pool, `SELECT coalesce(max(name), '') FROM docket_export.consumers WHERE kind = 'backfill' AND owner IS NOT NULL`)
		return name != ""
	})
	command(t, s.env, "backfill", "pause", name, "--reason", "busy").want(t, exitOK, "is paused")
	if code := c.wait(20 * time.Second); code != exitPerson {
		t.Errorf("exit code %d\n%s", code, c.stderr)
	}
	if at := s.status(name); at.Owner != "" || at.Paused == nil {
		t.Fatalf("status %+v", at)
	}
	command(t, s.env, "backfill", "resume", name, "--reason", "calm").want(t, exitOK, "may go on")
	command(t, s.env, ask...).want(t, exitOK, "is finished at 60")
	wantOnce(t, s.lines(name), 60)
}

// A running exporter works on what was left to it, and pause, resume and cancel
// reach it.
func TestDetachedBackfill(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 400)
	s.env["EXPORTER_LEASE_TTL"] = "2s"
	c := start(t, s.env, "", "run")
	s.await("analytics", 400)
	r := command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--to", "id:401", "--detach", "--rate", "40/s")
	r.want(t, exitOK, "a running exporter")
	name := begun(t, r)
	pgtest.Until(t, 30*time.Second, "the exporter to take it up", func() bool { return len(s.lines(name)) > 0 })
	command(t, s.env, "backfill", "pause", name, "--reason", "busy").want(t, exitOK, "is paused")
	pgtest.Until(t, 30*time.Second, "the owner to stop", func() bool { return !s.status(name).LeaseLive })
	c.awaitWords("the backfill is paused")
	command(t, s.env, "backfill", "show", name).want(t, exitOK, "paused", "busy", "backfill resume")
	command(t, s.env, "status").want(t, exitPerson, "exporter backfill resume "+name+" --reason TEXT")
	at := s.status(name).Position
	command(t, s.env, "backfill", "resume", name, "--reason", "calm").want(t, exitOK, "may go on")
	pgtest.Until(t, 30*time.Second, "progress", func() bool { return s.status(name).Position.High > at.High })
	command(t, s.env, "backfill", "cancel", name, "--reason", "wrong").want(t, exitOK, "is cancelled")
	c.awaitWords("the backfill was cancelled")
	if parts := s.unfinished(name); len(parts) > 0 {
		t.Errorf("what was sent before the end is in %v, which no reader takes", parts)
	}
	for _, alarm := range []string{"no backfill is worked on", "no longer the owner"} {
		if strings.Contains(c.stderr.String(), alarm) {
			t.Errorf("pause and cancel are on purpose, and it says %q\n%s", alarm, c.stderr)
		}
	}
	high := s.status(name).Position.High
	command(t, s.env, "backfill", "list").want(t, exitOK, "cancelled")
	r = command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--to", "id:401", "--detach", "--again")
	r.want(t, exitOK)
	second := begun(t, r)
	pgtest.Until(t, 30*time.Second, "the second one to finish", func() bool { return s.status(second).Finished != nil })
	if now := s.status(name).Position.High; now != high || now >= 400 {
		t.Errorf("the cancelled one went from %d to %d", high, now)
	}
	wantOnce(t, s.lines(second), 400)
	wantOnce(t, s.delivered("analytics"), 400)
	s.wantAudit(name, "create", "pause", "resume", "cancel")
	pgtest.Until(t, 10*time.Second, "its series to go", func() bool {
		text, _ := scraped(c.stderr.String())
		return text != "" && !strings.Contains(text, `consumer="`+name) && strings.Contains(text, `consumer="analytics"`)
	})
	c.kill()
}

// A backfill waits while a live consumer is behind, and says so.
func TestBackfillYields(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 50)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET owner = 'somebody', lease_until = now() + interval '1 hour', caught_up_at = now() - interval '9 seconds'`)
	c := start(t, s.env, "", "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history")
	pgtest.Until(t, 20*time.Second, "it to say why it waits", func() bool {
		return strings.Contains(c.stderr.String(), "waits: analytics has been behind for")
	})
	if n := len(s.lines("history")); n != 0 {
		t.Fatalf("%d events were sent", n)
	}
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET caught_up_at = now() WHERE name = 'analytics'`)
	if code := c.wait(20 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	wantOnce(t, s.lines("history"), 50)
}

// What a backfill in the background waits for is told by show, status and the
// metrics of the process.
func TestDetachedBackfillTellsWhyItWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 50)
	dir := s.env["CONSUMER_ANALYTICS_FILE_DIR"]
	s.env["EXPORTER_LEASE_TTL"] = "2s"
	both := maps.Clone(s.env)
	both["EXPORTER_CONSUMERS"], both["CONSUMER_OTHER_SINK"], both["CONSUMER_OTHER_FILE_DIR"] = "analytics,other", "file", dir
	command(t, both, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET owner = 'somebody', lease_until = now() + interval '1 hour', caught_up_at = now() - interval '9 seconds' WHERE name = 'other'`)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history", "--detach").want(t, exitOK)
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the owner to say why it waits", func() bool { return s.status("history").Waiting != "" })
	command(t, s.env, "backfill", "show", "history").want(t, exitOK, "waits", "other has been behind for")
	if text := command(t, s.env, "status").stdout; !strings.Contains(text, "waits    other has been behind for") {
		t.Errorf("status says\n%s", text)
	}
	const series = `docket_exporter_backfill_throttled_seconds_total{consumer="history",reason="live_lag"}`
	pgtest.Until(t, 20*time.Second, series, func() bool {
		text, _ := scraped(c.stderr.String())
		return strings.Contains(text, series)
	})
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET caught_up_at = now() WHERE name = 'other'`)
	pgtest.Until(t, 20*time.Second, "it to finish", func() bool { return s.status("history").Finished != nil })
	if now := s.status("history"); now.Waiting != "" {
		t.Errorf("finished, and it waits: %s", now.Waiting)
	}
	wantOnce(t, s.lines("history"), 50)
	c.kill()
}

// Ctrl-C finishes the batch in flight and says how to go on.
func TestBackfillStopsCleanly(t *testing.T) {
	s := newSite(t)
	s.insert("a", 100)
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest"}
	c := start(t, s.env, "", append(ask, "--rate", "20/s")...)
	name := ""
	pgtest.Until(t, 20*time.Second, "the first events", func() bool {
		name = pgtest.Value[string](t, s.pool, `SELECT coalesce(max(name), '') FROM docket_export.consumers WHERE kind = 'backfill' AND events_accepted > 0`)
		return name != ""
	})
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(20 * time.Second); code != exitFailed {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	if text := c.stderr.String(); !strings.Contains(text, "stopped before the end") || !strings.Contains(text, "the same command goes on from there") {
		t.Fatalf("it says:\n%s", text)
	}
	if at := s.status(name); at.Owner != "" || at.Intent != nil || at.EventsAccepted == 100 {
		t.Fatalf("status %+v", at)
	}
	command(t, s.env, ask...).want(t, exitOK, name+" goes on at", "100 events sent")
	wantOnce(t, s.lines(name), 100)
}

// The rate holds over many pages, also when the sink is slow now and then.
func TestPaceHoldsTheRate(t *testing.T) {
	for _, r := range []Rate{7, 1000, 50_000} {
		synctest.Test(t, func(t *testing.T) {
			page := max(1, int(r/pagesPerSecond))
			p := newPace(r, page)
			began, sent := time.Now(), 0
			for i := range 200 {
				p.take(t.Context(), page)
				sent += page
				if i%20 == 0 {
					time.Sleep(300 * time.Millisecond) // a slow request
				}
			}
			got := float64(sent) / time.Since(began).Seconds()
			if off := got/float64(r) - 1; off < -0.05 || off > 0.05 {
				t.Errorf("%.1f/s instead of %.1f/s", got, float64(r))
			}
		})
	}
}

// With events that lie evenly, what is left is known within a fifth after the
// first tenth.
func TestTimeLeft(t *testing.T) {
	var m speedometer
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const whole = 300.0 // seconds
	b := cursor.BackfillStatus{Until: exporter.Position{High: 6_000_000}}
	for s := 0.0; s < whole; s++ {
		b.Position.High = 1_000_000 + int64(s/whole*5_000_000)
		done := share(1_000_000, &b)
		rate, left := m.add(reading{began.Add(time.Duration(s * float64(time.Second))), done, int64(s * 1000)})
		if s > whole/10 {
			if off := left.Seconds()/(whole-s) - 1; off < -0.2 || off > 0.2 {
				t.Fatalf("after %.0f s: %v left, want %.0f s", s, left, whole-s)
			}
			if rate < 990 || rate > 1010 {
				t.Fatalf("rate %.0f", rate)
			}
		}
	}
}

func TestReplayRun(t *testing.T) {
	s := newSite(t)
	s.insert("order,7*", 3)
	s.insert("order", 4)
	s.insert("order,7*", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	defer s.guardLive()()
	for i, suffix := range []string{"", "_2"} {
		r := command(t, s.env, "replay", "--run", "order,7*", "--reason", "lost downstream")
		r.want(t, exitOK, "6 events sent")
		name := begun(t, r)
		if !strings.HasSuffix(name, suffix) {
			t.Errorf("replay %d is %s", i+1, name)
		}
		var want []string
		for seq := range 6 {
			want = append(want, fmt.Sprintf("order,7*/%d", seq+1))
		}
		if got := s.lines(name); !slices.Equal(got, want) {
			t.Fatalf("sent %v", got)
		}
		if reason := pgtest.Value[string](t, s.pool, `SELECT reason FROM docket_export.audit WHERE consumer = $1 AND command = 'create'`, name); reason != "lost downstream" {
			t.Errorf("the audit says %q", reason)
		}
	}
}

// The sign that marks a run's whole id within is part of an id from outside.
func TestBackfillOfARunWithASign(t *testing.T) {
	s := newSite(t)
	s.insert("=a", 2)
	s.insert("a", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	from := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "signed", "--runs"}
	command(t, s.env, append(from, "=a*")...).want(t, exitUsage, "write its runs out")
	command(t, s.env, append(from, "=a")...).want(t, exitOK, "runs =a", "2 events sent")
	if got := s.lines("signed"); !slices.Equal(got, []string{"=a/1", "=a/2"}) {
		t.Errorf("sent %v", got)
	}
}

// Dead letters of a backfill go through its consumer's sink.
func TestDeadLettersOfABackfill(t *testing.T) {
	s := newSite(t)
	s.insert("a", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE seq = 2`)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history").want(t, exitOK, "2 events sent")
	r := command(t, s.env, "deadletter", "replay", "--consumer", "history", "--reviewed-by", "eve", "--reason", "r", "--yes")
	if strings.Contains(r.stderr, "EXPORTER_CONSUMERS does not name") {
		t.Fatal(r.stderr)
	}
	if files, err := filepath.Glob(filepath.Join(s.env["CONSUMER_ANALYTICS_FILE_DIR"], "history-*")); err != nil || len(files) == 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// A backfill that cannot be worked on any more holds up no other.
func TestDetachedBackfillThatCannotRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 30)
	command(t, s.env, "run", "--once").want(t, exitOK)
	for name, types := range map[string]string{"first": "node_completed", "second": "run_*"} {
		command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", name, "--types", types, "--detach").want(t, exitOK)
	}
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET created_at = created_at - interval '1 hour' WHERE name = 'first'`)
	s.env["CONSUMER_ANALYTICS_TYPES"] = "run_*"
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 20*time.Second, "the second one to finish", func() bool { return s.status("second").Finished != nil })
	pgtest.Until(t, 20*time.Second, "the log to name the first one", func() bool {
		return strings.Contains(c.stderr.String(), "first: --types node_completed selects nothing that analytics exports")
	})
	c.kill()
}

// A stop does not wait for events that a slow rate allows later.
func TestSlowBackfillStopsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 30)
	command(t, s.env, "run", "--once").want(t, exitOK)
	c := start(t, s.env, "", "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history", "--rate", "8/m")
	pgtest.Until(t, 20*time.Second, "the first event", func() bool {
		return pgtest.Value[bool](t, s.pool, `SELECT count(*) > 0 FROM docket_export.consumers WHERE name = 'history' AND events_accepted > 0`)
	})
	began := time.Now()
	c.signal(syscall.SIGTERM)
	if code := c.wait(20 * time.Second); code != exitFailed || time.Since(began) > 4*time.Second {
		t.Errorf("exit code %d after %v\n%s", code, time.Since(began), c.stderr)
	}
}

// The same events are the same backfill also after their consumer was renamed,
// and other events under a name like a made one are not.
func TestBackfillIsFoundByWhatItIsOf(t *testing.T) {
	s := newSite(t)
	s.insert("a", 30)
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := func(consumer string) []string {
		return []string{"backfill", "--consumer", consumer, "--from", "id:5", "--to", "id:20"}
	}
	name := begun(t, command(t, s.env, ask("analytics")...))
	command(t, s.env, "consumer", "rename", "analytics", "billing", "--reason", "test", "--yes").want(t, exitOK)
	s.renameVariables("analytics", "billing")
	command(t, s.env, ask("billing")...).want(t, exitOK, name+" has finished")

	spec := backfillSpec{Consumer: "billing", From: "earliest"}
	other := spec.defaultName(1)
	command(t, s.env, append(ask("billing"), "--name", other)...).want(t, exitOK, "is finished")
	command(t, s.env, "backfill", "--consumer", "billing", "--from", "earliest").want(t, exitOK, spec.defaultName(2)+" begins at 0", "30 events sent")
}

// A replay that was interrupted is finished first, although its run has grown.
func TestReplayOfAGrownRun(t *testing.T) {
	s := newSite(t)
	s.insert("a", 10)
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := []string{"replay", "--run", "a", "--reason", "test"}
	c := start(t, s.env, "", append(ask, "--rate", "2/s")...)
	pgtest.Until(t, 20*time.Second, "the first event", func() bool {
		return pgtest.Value[bool](t, s.pool, `SELECT count(*) > 0 FROM docket_export.consumers WHERE kind = 'backfill' AND events_accepted > 0`)
	})
	c.signal(syscall.SIGINT)
	c.wait(20 * time.Second)
	s.insert("a", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, ask...).want(t, exitOK, "goes on at", "10 events sent")
	command(t, s.env, ask...).want(t, exitOK, "begins at 0 and ends at 15", "15 events sent")
}
