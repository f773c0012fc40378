package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/cursor"
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
		what              string
		changes           []cursor.NameChange
		own, taken, mixed []string
	}{
		{"alone", []cursor.NameChange{live("1", "", "a")}, []string{"a"}, nil, nil},
		{
			"a backfill begun under an earlier name",
			[]cursor.NameChange{live("1", "", "b"), backfill("x", "", "h", "b"), live("1", "b", "a")},
			[]string{"a", "b", "h"},
			nil, nil,
		},
		{
			"a backfill of the next consumer of the earlier name",
			[]cursor.NameChange{live("1", "", "b"), live("1", "b", "a"), live("2", "", "b"), backfill("x", "", "h", "b")},
			[]string{"a"},
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
			[]string{"h"},
			nil,
		},
		{
			"the successor of a removed consumer",
			[]cursor.NameChange{live("2", "", "a"), backfill("x", "", "h", "a"), live("2", "a", ""), live("1", "", "a"), backfill("x", "", "h", "a")},
			[]string{"a", "h"},
			nil,
			[]string{"a"},
		},
		{
			"a backfill begun before its consumer",
			[]cursor.NameChange{backfill("x", "", "h", "a"), live("1", "", "a")},
			[]string{"a", "h"},
			nil, nil,
		},
	} {
		got, err := namesOf("a", "1", c.changes)
		if err != nil || !slices.Equal(got.own, c.own) || !slices.Equal(got.taken, c.taken) || !slices.Equal(got.mixed, c.mixed) {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
	}
}
