package main

import (
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// Flags with nothing between them are a mistake, and one in a place names the
// flag. A consumer that has done nothing, or nothing since --from, has nothing to
// compare, and is not clean.
func TestReconcileOfNothing(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.insert("before", 20)
	command(t, s.env, "run", "--once").want(t, exitOK)
	if r := s.reconcile(exitOK); r.Verdict != "empty" || r.IDs != "" {
		t.Errorf("report %+v", r)
	}
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitOK, "analytics has nothing to compare")
	s.insert("r", 100)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.reconcile(exitOK)
	if r := s.reconcile(exitOK, "--from", "latest"); r.Verdict != "empty" {
		t.Errorf("report %+v", r)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "100", "--to", "50"}, "there is nothing between --from 100 (100) and --to 50 (50)"},
		{[]string{"--to", "10"}, "there is nothing between where analytics was created or set to and --to 10 (10)"},
		{[]string{"--from", "never"}, "--from: "},
		{[]string{"--to", "run:nobody"}, "--to: "},
	} {
		command(t, s.env, append([]string{"reconcile", "--consumer", "analytics"}, c.args...)...).want(t, exitUsage, c.want)
	}
}

// An id that is missing in the source is looked at in the sink also where a place
// is an id near it: what the sink has there is extra.
func TestReconcileLooksAtMissingIDs(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 40)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_runs SET status = 'running', finished_at = NULL`)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE id = 20`)
	extra := "extra r/20"
	for _, args := range [][]string{nil, {"--to", "latest"}, {"--to", "id:35"}, {"--from", "id:10"}} {
		s.wantTold(s.reconcile(exitPerson, args...), extra)
	}
	for _, args := range [][]string{{"--from", "id:30"}, {"--to", "id:15"}} {
		s.wantTold(s.reconcile(exitOK, args...))
	}
}

// What is extra is told of each copy of an id by itself.
func TestReconcileOfSeveralExtras(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 20)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_runs SET status = 'running', finished_at = NULL`)
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE id = 10`)
	s.editLines(func(id int64, line string) []string {
		if id == 10 {
			return []string{strings.Replace(line, `"run_id":"r"`, `"run_id":"nosuch"`, 1), line}
		}
		return []string{line}
	})
	s.wantTold(s.reconcile(exitPerson), "extra r/10")
}

// Without contents it is still the identity that counts, not a key beside it.
func TestReconcileComparesWholeIdentities(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 10)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.editLines(func(id int64, line string) []string {
		if id == 4 {
			line = strings.Replace(line, `{"run_id":"r"`, `{"run_id":"q"`, 1)
		}
		return []string{line}
	})
	for _, args := range [][]string{nil, {"--identities"}} {
		if r := s.reconcile(exitPerson, args...); r.Missing != 1 {
			t.Errorf("%v: report %+v", args, r)
		}
	}
}

// Copies of events that are not compared do not count among those that are, and
// are told.
func TestReconcileCountsWhatItCompares(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.insert("before", 30)
	open := s.holdOpen()
	s.insert("before2", 30)
	command(t, s.env, "run", "--once").want(t, exitOK)
	open()
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history").want(t, exitOK)
	for _, args := range [][]string{nil, {"--identities"}} {
		r := s.reconcile(exitOK, args...)
		if r.IDs != "31 to 66 (6 of them)" || r.Events != 6 || r.Copies != 12 || r.Duplicates != 6 || r.Outside != 60 || r.AbovePosition != 0 {
			t.Errorf("%v: report %+v", args, r)
		}
	}
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitOK, "compared the identities and contents of 6 events",
		"with 12 copies in the sink", "6 surplus copies: ", "not judged: 60 copies of events outside of these ids")
}
