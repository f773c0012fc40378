package main

import "testing"

// Flags with nothing between them are a mistake, and one in a place names the
// flag. A consumer that has done nothing has nothing to compare, and is not clean.
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
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "100", "--to", "50"}, "there is nothing between --from 100 (100) and --to 50 (50)"},
		{[]string{"--to", "10"}, "there is nothing between where analytics was created or set to and --to 10 (10)"},
		{[]string{"--from", "latest"}, "there is nothing between --from latest (120) and its position 120"},
		{[]string{"--from", "never"}, "--from: "},
		{[]string{"--to", "run:nobody"}, "--to: "},
	} {
		command(t, s.env, append([]string{"reconcile", "--consumer", "analytics"}, c.args...)...).want(t, exitUsage, c.want)
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
