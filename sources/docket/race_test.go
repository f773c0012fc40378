package docket_test

import (
	"fmt"
	"testing"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// Whatever a transaction does between two statements of a poll, its row is
// neither lost nor made up.
func TestCommitBetweenStatements(t *testing.T) {
	steps := []struct {
		name string
		n    int
	}{{"begin", 1}, {"holders", 1}, {"page", 1}, {"holders", 2}}
	for _, step := range steps {
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			t.Run(fmt.Sprint(step.name, step.n, " ", end), func(t *testing.T) {
				d := open(t, docket.Options{})
				a, b := d.session(), d.session()
				a.runs("r1", "r2")
				a.do("BEGIN")
				a.insert("r1", 1)
				b.insert("r2", 1)
				ended := false
				d.source = docket.New(stepPool(t, d.dsn, at(step.name, step.n, func() { ended = true; a.do(end) })), docket.Options{})
				d.poll()
				if !ended {
					t.Fatal("the poll did not come to that statement")
				}
				d.drain()
				want := map[string]int{"r2": 1}
				if end == "COMMIT" {
					want["r1"] = 1
				}
				d.wantOrdered(want)
				if len(d.got) != len(want) {
					t.Fatalf("delivered %v", d.got)
				}
				d.wantAt("2")
			})
		}
	}
}

// One holder's end settles ids; another's transaction commits before they are
// looked up.
func TestCommitBeforeTheLookUp(t *testing.T) {
	d := open(t, docket.Options{})
	a, b, settled := d.session(), d.session(), d.session()
	a.runs("r1", "r2", "r3")
	settled.do("BEGIN")
	settled.insert("r3", 1)
	b.insert("r2", 1)
	step := func(string) func() { return nil }
	d.source = docket.New(stepPool(t, d.dsn, func(sql string) func() { return step(sql) }), docket.Options{})
	d.poll()
	d.wantAt("2-{[1,1]}")
	a.do("BEGIN")
	a.insert("r1", 1)
	b.insert("r2", 2)
	end, commit := at("holders", 2, func() { settled.do("COMMIT") }), at("ids", 1, func() { a.do("COMMIT") })
	step = func(sql string) func() {
		if act := end(sql); act != nil {
			return act
		}
		return commit(sql)
	}
	d.poll()
	d.drain()
	d.wantOrdered(map[string]int{"r1": 1, "r2": 2, "r3": 1})
	d.wantAt("4")
}

// A row above the first gap of an untouched position: the gap comes first.
func TestLeadingGap(t *testing.T) {
	d := open(t, docket.Options{})
	a := d.session()
	a.runs("r1")
	for range 11 {
		a.do("SELECT nextval('docket_events_id_seq')")
	}
	a.insert("r1", 1)
	d.at = exporter.Position{High: 10}
	d.poll()
	d.wantGot("r1/1")
	d.wantAt("12")
}

// A transaction draws two ids around another's, and commits between the page
// and the second list: both its rows come, in order.
func TestTwoHolesOfOneRunStayInOrder(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r", "other")
	a.do("BEGIN")
	a.insert("r", 1)
	b.insert("other", 1)
	d.poll() // the first id is a known hole now
	a.insert("r", 2)
	b.insert("other", 2)
	stepped := docket.New(stepPool(t, d.dsn, at("holders", 2, func() { a.do("COMMIT") })), docket.Options{})
	d.source = stepped
	d.poll()
	d.drain()
	d.wantOrdered(map[string]int{"r": 2, "other": 2})
	d.wantAt("4")
}

// The same where the run's earlier event has the higher id, above the page.
func TestLateRowNeverOvertakesItsRun(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r", "other")
	a.do("BEGIN")
	a.insert("r", 2)
	b.insert("other", 1)
	d.source = docket.New(stepPool(t, d.dsn, at("holders", 2, func() {
		a.insert("r", 1)
		a.do("COMMIT")
	})), docket.Options{})
	d.poll()
	d.drain()
	d.wantOrdered(map[string]int{"r": 2, "other": 1})
}

// A run is deleted between its events and its columns: its events went with
// it, and are not delivered as a tenantless run's.
func TestRunDeletedWhileItIsRead(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.do(insertRun, "gone", "acme", "chain")
	s.do(insertRun, "kept", "acme", "chain")
	s.insert("gone", 1)
	s.insert("kept", 1)
	d.source = docket.New(stepPool(t, d.dsn, at("holders", 2, func() { s.do(`DELETE FROM docket_runs WHERE run_id = 'gone'`) })), docket.Options{})
	b := d.poll()
	d.wantGot("kept/1")
	d.wantAt("2")
	if e := b.Events[0]; e.TenantID.Value != "acme" || e.GraphID.Value != "chain" {
		t.Fatalf("event %+v", e)
	}
}
