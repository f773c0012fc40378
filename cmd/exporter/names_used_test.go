package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// The files that a consumer and its backfills have written under other names
// count, also of a backfill that is removed.
func TestReconcileFollowsNames(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.renameVariables("analytics", "billing")
	s.insert("before", 20)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r", 10)
	command(t, s.env, "run", "--once").want(t, exitOK)
	for _, b := range [][]string{{"kept", "earliest", "id:6"}, {"moved", "id:6", "id:11"}, {"gone", "id:11", "id:21"}} {
		command(t, s.env, "backfill", "--consumer", "billing", "--name", b[0], "--from", b[1], "--to", b[2]).want(t, exitOK, "is finished")
	}
	named := func(args ...string) {
		t.Helper()
		command(t, s.env, append(append([]string{"consumer"}, args...), "--reason", "test", "--yes")...).want(t, exitOK)
	}
	named("rename", "moved", "moved_on")
	named("remove", "gone")
	named("rename", "billing", "invoices")
	named("rename", "invoices", "analytics")
	s.renameVariables("billing", "analytics")
	s.insert("r2", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	if r := s.reconcile(exitOK, "--from", "earliest"); r.Events != 35 || r.Copies != 35 || len(r.Remarks) != 0 {
		t.Fatalf("report %+v", r)
	}

	// Another consumer that takes the name writes the same events beside them.
	s.renameVariables("analytics", "billing")
	s.env["CONSUMER_BILLING_START"] = "earliest"
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "reconcile", "--consumer", "billing").want(t, exitOK, "files billing-… count, though another consumer has had that name before")
	s.renameVariables("billing", "analytics")
	r := s.reconcile(exitPerson, "--from", "earliest")
	if r.Missing != 10 || r.Copies != 25 || len(r.Remarks) != 1 {
		t.Fatalf("report %+v", r)
	}
	command(t, s.env, "reconcile", "--consumer", "analytics", "--from", "earliest").want(t, exitPerson, "files billing-… are left out")
}

// What a killed process has left open under a name that nobody has any more is
// not counted, and is finished by the next one that claims the consumer.
func TestLeftOpenUnderAnEndedName(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.env["CONSUMER_ANALYTICS_START"] = "latest"
	s.renameVariables("analytics", "billing")
	s.insert("before", 20)
	command(t, s.env, "run", "--once").want(t, exitOK)
	c := start(t, s.env, "", "run")
	s.insert("r", 10)
	pgtest.Until(t, 20*time.Second, "ten events to be recorded", func() bool { return s.status("billing").Position.High == 30 })
	c.kill()
	back := start(t, s.env, "", "backfill", "--consumer", "billing", "--from", "earliest", "--to", "id:21", "--name", "history", "--rate", "1/s")
	pgtest.Until(t, 20*time.Second, "some of the backfill", func() bool {
		return pgtest.Value[bool](t, s.pool, `SELECT count(*) > 0 FROM docket_export.consumers WHERE name = 'history' AND events_accepted > 0`)
	})
	back.kill()
	sent := s.status("history").EventsAccepted
	pgtest.Until(t, 20*time.Second, "the leases to expire", func() bool { return !s.status("billing").LeaseLive && !s.status("history").LeaseLive })
	other := maps.Clone(s.env)
	delete(other, "EXPORTER_CONSUMERS")
	command(t, other, "backfill", "cancel", "history", "--reason", "test").want(t, exitOK)
	command(t, s.env, "consumer", "rename", "billing", "analytics", "--reason", "test", "--yes").want(t, exitOK)
	s.renameVariables("billing", "analytics")
	r := s.reconcile(exitPerson, "--from", "earliest")
	if r.Missing != 30 || r.Copies != 0 || !slices.ContainsFunc(r.Remarks, func(text string) bool { return strings.HasPrefix(text, "2 files are left open") }) {
		t.Fatalf("report %+v", r)
	}
	command(t, s.env, "run", "--once").want(t, exitOK)
	if left := s.filesOf("*.part"); len(left) != 0 {
		t.Fatalf("still open: %q", left)
	}
	if r := s.reconcile(exitPerson, "--from", "earliest"); r.Copies != 10+sent || r.Missing != 20-sent {
		t.Fatalf("report %+v", r)
	}
}

// renameVariables makes the variables of one consumer those of another.
func (s *site) renameVariables(from, to string) {
	before, after := consumerPrefix(from), consumerPrefix(to)
	for name, value := range maps.Clone(s.env) {
		if rest, ok := strings.CutPrefix(name, before); ok {
			delete(s.env, name)
			s.env[after+rest] = value
		}
	}
	s.env["EXPORTER_CONSUMERS"] = to
}

// Whose a name is follows from the order in which names were taken.
func TestNamesOf(t *testing.T) {
	t.Parallel()
	live := func(uid, before, after string) cursor.NameChange {
		return cursor.NameChange{UID: uid, Kind: cursor.Live, Before: before, After: after}
	}
	backfill := func(uid, before, after, of string) cursor.NameChange {
		return cursor.NameChange{UID: uid, Kind: cursor.Backfill, Before: before, After: after, Spec: []byte(`{"consumer":"` + of + `"}`)}
	}
	for _, c := range []struct {
		what                     string
		changes                  []cursor.NameChange
		own, ended, taken, mixed []string // ended behind former
	}{
		{"alone", []cursor.NameChange{live("1", "", "a")}, []string{"a"}, nil, nil, nil},
		{
			"backfills that go on, have ended, and are removed",
			[]cursor.NameChange{
				live("1", "", "a"), backfill("x", "", "h", "a"), backfill("y", "", "i", "a"), backfill("z", "", "j", "a"), backfill("z", "j", "", "a"),
				{UID: "y", Kind: cursor.Backfill, After: "i", Spec: []byte(`{"consumer":"a"}`), Ended: true},
			},
			[]string{"a", "h"},
			[]string{"i", "j"},
			nil, nil,
		},
		{
			"a backfill begun under an earlier name",
			[]cursor.NameChange{live("1", "", "b"), backfill("x", "", "h", "b"), live("1", "b", "a")},
			[]string{"a", "h"},
			[]string{"b"},
			nil, nil,
		},
		{
			"a backfill of the next consumer of the earlier name",
			[]cursor.NameChange{live("1", "", "b"), live("1", "b", "a"), live("2", "", "b"), backfill("x", "", "h", "b")},
			[]string{"a"},
			nil,
			[]string{"b"},
			nil,
		},
		{
			"the name of a removed backfill taken by another consumer's, and left",
			[]cursor.NameChange{
				live("1", "", "a"), live("2", "", "b"), backfill("x", "", "h", "a"), backfill("x", "h", "", "a"),
				backfill("y", "", "h", "b"), backfill("y", "h", "", "b"),
			},
			[]string{"a"},
			nil,
			[]string{"h"},
			nil,
		},
		{
			"the successor of a removed consumer",
			[]cursor.NameChange{live("2", "", "a"), backfill("x", "", "h", "a"), live("2", "a", ""), live("1", "", "a"), backfill("x", "", "h", "a")},
			[]string{"a", "h"},
			nil,
			nil,
			[]string{"a"},
		},
		{
			"a backfill begun before its consumer",
			[]cursor.NameChange{backfill("x", "", "h", "a"), live("1", "", "a")},
			[]string{"a", "h"},
			nil, nil, nil,
		},
	} {
		got, err := namesOf("a", "1", c.changes)
		if err != nil || !slices.Equal(got.own, c.own) || !slices.Equal(slices.Concat(got.former, got.ended), c.ended) || !slices.Equal(got.taken, c.taken) || !slices.Equal(got.mixed, c.mixed) {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
	}
}

// A batch that was killed before it was recorded is not written again when the
// consumer has got another name meanwhile.
func TestBatchInFlightSurvivesARename(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.renameVariables("analytics", "billing")
	s.insert("r", 20)
	c := start(t, s.env, accepted+" 1", "run")
	c.awaitLine("at " + accepted)
	c.kill()
	pgtest.Until(t, 20*time.Second, "the lease to expire", func() bool { return !s.status("billing").LeaseLive })
	command(t, s.env, "consumer", "rename", "billing", "analytics", "--reason", "test", "--yes").want(t, exitOK)
	s.renameVariables("billing", "analytics")
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	if left := s.filesOf("*.part"); len(left) != 0 {
		t.Fatalf("still open: %q", left)
	}
	if r := s.reconcile(exitOK); r.Events != 25 || r.Copies != 25 || r.Duplicates != 0 {
		t.Errorf("report %+v", r)
	}
}
