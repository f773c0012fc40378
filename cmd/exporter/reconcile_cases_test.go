package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// What a backfill has brought counts like what the consumer has: a history that
// was filled in is proved, and what is missing of it is sent again.
func TestReconcileSeesBackfills(t *testing.T) {
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.loaded(5_000)
	if r := s.reconcile(exitPerson, "--from", "earliest"); r.Missing != 5_000 {
		t.Fatalf("%d missing before the backfill", r.Missing)
	}
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history").want(t, exitOK, "is finished")
	if r := s.reconcile(exitOK, "--from", "earliest"); r.Events != 5_000 || r.Copies != 5_000 || r.Duplicates != 0 {
		t.Fatalf("report %+v", r)
	}
	if r := s.reconcile(exitOK); r.Events != 0 || r.Foreign != 0 {
		t.Errorf("what is below the consumer's start was compared: %+v", r)
	}
	s.editFiles("history-*", func(id int64, line string) []string {
		if id == 777 {
			return nil
		}
		return []string{line}
	})
	s.wantTold(s.reconcile(exitPerson, "--from", "earliest"), "missing "+s.eventAt(777))
	s.wantTold(s.reconcile(exitOK, "--from", "earliest", "--repair", "--reason", "a line was lost"), "repaired "+s.eventAt(777))
	s.reconcile(exitOK, "--from", "earliest")
}

// What dead letters of a backfill explain is no difference, nor what a person has
// given up and purged: a repair sends none of it.
func TestReconcileKnowsLettersOfBackfills(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.env["CONSUMER_ANALYTICS_ON_POISON"] = "hold_run"
	s.insert("r", 9)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x00' WHERE seq = 4`)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history").want(t, exitOK, "is finished")
	if r := s.reconcile(exitOK, "--from", "earliest", "--repair", "--reason", "test"); r.DeadLetters != 6 || r.Missing != 0 || r.Copies != 3 {
		t.Fatalf("report %+v", r)
	}
	command(t, s.env, "deadletter", "discard", "--consumer", "history", "--reviewed-by", "eve", "--reason", "given up", "--yes").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.dead_letters SET changed_at = now() - interval '1 year'`)
	command(t, s.env, "deadletter", "purge", "--decided-before", "1d", "--reviewed-by", "eve", "--reason", "old", "--yes").want(t, exitOK)
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.dead_letters`); n != 0 {
		t.Fatalf("%d letters are left", n)
	}
	if r := s.reconcile(exitOK, "--from", "earliest", "--repair", "--reason", "test"); r.DeadLetters != 6 || r.Missing != 0 || r.Copies != 3 {
		t.Fatalf("report after the purge %+v", r)
	}
}

// What Docket has pruned, or deleted with its run, is not extra; what it cannot
// have deleted is.
func TestReconcileAfterPruning(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["RETENTION_EVENTS"] = "1h"
	s.insert("old", 6)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET inserted_at = now() - interval '2 hours'`)
	pgtest.Exec(t, s.pool, `UPDATE docket_runs SET started_at = now() - interval '2 hours'`)
	s.insert("deleted", 3)
	s.insert("young", 5)
	s.insert("last", 1) // whose row the source is known by
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE run_id = 'old' AND seq <= 4`)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_runs WHERE run_id = 'deleted'`)
	if r := s.reconcile(exitOK); r.Unjudged != 7 || r.Events != 8 {
		t.Errorf("report %+v", r)
	}
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE run_id = 'young' AND seq = 3`)
	s.wantTold(s.reconcile(exitPerson), "extra young/3")
	pgtest.Exec(t, s.pool, `DELETE FROM docket_runs WHERE run_id = 'young'`)
	s.insert("young", 2) // another run of the same id
	command(t, s.env, "run", "--once").want(t, exitOK)
	if r := s.reconcile(exitOK); r.Unjudged != 12 || r.Events != 5 {
		t.Errorf("report %+v", r)
	}
}

// Dead letters, filtered rows, open ids and what lies outside of the consumer's
// range are not missing.
func TestReconcileKnowsWhatIsNotToBeThere(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("before", 2)
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r", 4)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE run_id = 'r' AND seq = 2`)
	open := s.holdOpen()
	s.insert("r2", 3)
	command(t, s.env, "run", "--once").want(t, exitOK, "open")
	r := s.reconcile(exitOK)
	s.wantTold(r, "dead_letter r/2")
	if r.Events != 7 || r.DeadLetters != 1 || r.Undecodable != 1 || r.IDs != "3 to 10 (7 of them)" {
		t.Errorf("report %+v", r)
	}
	open()
	s.reconcile(exitOK)
	s.wantTold(s.reconcile(exitPerson, "--from", "earliest"), "dead_letter r/2", "missing before/1", "missing before/2")
	if r := s.reconcile(exitOK, "--to", "id:5"); r.Events != 2 {
		t.Errorf("report %+v", r)
	}
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, reviewed("discard", "--id", s.letterID("r", 2))...).want(t, exitOK)
	s.wantTold(s.reconcile(exitOK), "dead_letter r/2")

	pgtest.Exec(t, s.pool, `UPDATE docket_runs SET tenant_id = 'acme' WHERE run_id = 'r2'`)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_export.dead_letters`)
	s.env["CONSUMER_ANALYTICS_TENANTS"] = "acme"
	r = s.reconcile(exitPerson) // delivered before it was a tenant's
	if r.OutsideFilter != 4 || r.Filtered != 5 || r.Differing != 3 {
		t.Errorf("report %+v", r)
	}
}

// What a person has moved the consumer over is not missing, unless it was moved
// back below it later.
func TestReconcileLeavesOutWhatWasLeftOut(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 4)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("over", 5)
	set := func(place string) {
		t.Helper()
		command(t, s.env, "cursor", "set", "analytics", place, "--reason", "not wanted", "--yes").want(t, exitOK)
	}
	set("id:8")
	command(t, s.env, "run", "--once").want(t, exitOK)
	if r := s.reconcile(exitOK); r.Events != 6 || r.Missing != 0 {
		t.Errorf("report %+v", r)
	}
	s.wantTold(s.reconcile(exitPerson, "--from", "id:7"), "missing over/3")
	set("id:6")
	command(t, s.env, "run", "--once").want(t, exitOK)
	if r := s.reconcile(exitOK); r.Events != 8 || r.IDs != "1 to 9 (8 of them)" {
		t.Errorf("report %+v", r)
	}
}

// holdOpen inserts an event in a transaction that stays open until it is called.
func (s *site) holdOpen() (commit func()) {
	s.t.Helper()
	s.insert("late", 0)
	tx, err := s.pool.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	pgtest.Exec(s.t, tx, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		VALUES ('late', 1, 'node_completed', 0, $1, $1, now(), now())`, docketsim.EncodeEvent(map[string]any{}))
	return func() {
		if err := tx.Commit(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Contents are compared as the consumer delivers them.
func TestReconcilePayloadOptions(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"none", "attempt", "full"} {
		t.Run(payload, func(t *testing.T) {
			s := newSite(t)
			s.env["CONSUMER_ANALYTICS_PAYLOAD"] = payload
			s.loaded(3000)
			s.reconcile(exitOK)
			s.editLines(func(id int64, line string) []string {
				if id == 10 {
					line = strings.Replace(line, `"step":`, `"step":1`, 1)
				}
				return []string{line}
			})
			s.wantTold(s.reconcile(exitPerson), "differs "+s.eventAt(10))
			s.reconcile(exitOK, "--identities")
		})
	}
}

// A finished run of which the source lacks an event in the middle, or its last
// checkpoint, is broken, though sink and source agree.
func TestReconcileBrokenRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.loaded(3000)
	var runs []string
	for _, seq := range []string{"2", "(SELECT max(seq) FROM docket_events l WHERE l.run_id = e.run_id)"} {
		runs = append(runs, pgtest.Value[string](t, s.pool, `DELETE FROM docket_events e WHERE id = (SELECT e.id FROM docket_events e JOIN docket_runs r USING (run_id)
			WHERE r.status = 'done' AND e.seq = `+seq+` AND (SELECT count(*) FROM docket_events c WHERE c.run_id = e.run_id) > 5 ORDER BY e.id LIMIT 1) RETURNING run_id`))
	}
	s.editLines(func(id int64, line string) []string {
		if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_events WHERE id = $1`, id); n == 0 {
			return nil
		}
		return []string{line}
	})
	r := s.reconcile(exitPerson)
	if r.RunsBroken != 2 || r.Missing+r.Differing+r.Extra != 0 {
		t.Fatalf("report %+v", r)
	}
	for _, run := range r.Runs {
		if gap := run.RunID == runs[0]; run.Verdict != "broken" || gap != (len(run.Gaps) == 1) || gap == run.Unended {
			t.Errorf("run %+v", run)
		}
	}
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitPerson, "the source lacks 2", "the source lacks its last checkpoint", "2 broken")
}

// It can run beside an exporter at work, and finds nothing wrong.
func TestReconcileBesideAnExporter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_FILE_SEGMENT_BYTES"] = "1MiB"
	_, stop := s.writes()
	c := start(t, s.env, "", "run")
	for i := range 5 {
		high := int64(300 * (i + 1))
		pgtest.Until(t, 60*time.Second, "events", func() bool { return s.high() > high })
		s.reconcile(exitOK)
	}
	stop()
	c.signal(syscall.SIGTERM)
	c.wait(30 * time.Second)
	if r := s.reconcile(exitOK); r.Duplicates != 0 {
		t.Errorf("report %+v", r)
	}
}

// A repair leaves out what the consumer is about to deliver by itself, and a
// source that is not the known one ends it.
func TestReconcileRepairIsFenced(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.editLines(func(id int64, line string) []string { return []string{line}[:1-int(id&1)] })
	if err := cursor.NewStore(s.pool, nil, "docket_export").Set(t.Context(), "analytics", exporter.Position{High: 2}, false, "a person", "test"); err != nil {
		t.Fatal(err)
	}
	s.wantTold(s.reconcile(exitOK, "--repair", "--reason", "test"), "repaired r/1")
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET run_id = 'r', seq = 77 WHERE id = 5`) // the row that was read last
	command(t, s.env, "reconcile", "--consumer", "analytics", "--repair", "--reason", "test").want(t, exitPerson, "source_changed", "event 5 was r/5")
}

// Sinks of messages cannot be read.
func TestReconcileUnknown(t *testing.T) {
	s := newSite(t)
	s.insert("r", 1)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.webhook("http://127.0.0.1:1/")
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitFailed, "unknown", "webhook")
	command(t, s.env, "reconcile", "--consumer", "analytics", "--json").want(t, exitFailed, `"verdict": "unknown"`)
	command(t, s.env, "reconcile").want(t, exitUsage, "--consumer")
	command(t, s.env, "reconcile", "--consumer", "other").want(t, exitUsage, "EXPORTER_CONSUMERS does not name other")
}

// Lines that are no events are located and keep the verdict from being a plain
// clean; copies above the position and losses within the range are told.
func TestReconcileTellsWhatItDoesNotJudge(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	dir := s.env["CONSUMER_ANALYTICS_FILE_DIR"]
	files, err := filepath.Glob(filepath.Join(dir, "analytics-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	invented := strings.Replace(lines[4], `"event_id":5,`, `"event_id":500,`, 1)
	key := func(id int64) string { return exporter.Identity{RunID: "r", Seq: 5, EventID: id}.Key() }
	above := strings.Replace(invented, key(5), key(500), 1)
	lines = slices.Insert(lines, 2, "by hand\n")
	if err := os.Chmod(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte(strings.Join(lines, "")+above+invented+"{}\nno newline"), 0o600); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, s.pool, `INSERT INTO docket_export.losses (consumer_uid, consumer, batch, kind, first_id, last_id, events, certain, runs, reason)
		SELECT uid, name, 1, 'pruned', 2, 3, 2, false, '[]', 'test' FROM docket_export.consumers`)
	for _, args := range [][]string{nil, {"--identities"}} {
		if r := s.reconcile(exitOK, args...); r.Foreign != 4 || r.AbovePosition != 1 || r.Outside != 0 || r.Verdict != verdictClean {
			t.Errorf("%v: report %+v", args, r)
		}
	}
	base := filepath.Base(files[0])
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitOK,
		"analytics is clean, but for 4 lines that are no events", base+" line 3, "+base+" line 8, "+base+" line 9, "+base+" line 10\n",
		"not judged: 1 copy of events above the position", "1 loss is recorded within these ids, 1 not accepted yet")
	r := s.reconcile(exitOK, "--to", "id:5")
	if r.AboveTo != 2 || r.AbovePosition != 0 || r.Copies != 4 {
		t.Errorf("report up to 4: %+v", r)
	}
	command(t, s.env, "reconcile", "--consumer", "analytics", "--to", "id:5").want(t, exitOK, "not judged: 2 copies of events above --to\n")
}

// A line of an id that the source has not, in a run that it has not, is an event
// that was deleted only with the key of its identity. A last event that has lost
// its newline is missing, and its line named.
func TestReconcileNamesInventedLines(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("gone", 2)
	s.insert("r", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE run_id = 'gone'`)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_runs WHERE run_id = 'gone'`)
	s.editLines(func(id int64, line string) []string {
		switch id {
		case 2:
			return []string{line, strings.Replace(line, `"seq":2`, `"seq":9`, 1)}
		case 5:
			return []string{strings.TrimSuffix(line, "\n")}
		}
		return []string{line}
	})
	base := filepath.Base(s.files()[0])
	for _, args := range [][]string{nil, {"--identities"}} {
		r := s.reconcile(exitPerson, args...)
		s.wantTold(r, "missing r/3")
		if r.Foreign != 2 || r.Unjudged != 2 || len(r.Remarks) != 1 ||
			!strings.Contains(r.Remarks[0], base+" line 3") || !strings.Contains(r.Remarks[0], base+" line 6") {
			t.Errorf("%v: report %+v", args, r)
		}
	}
}
