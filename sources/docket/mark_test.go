package docket_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

func TestMarkIsTheHighestRowRead(t *testing.T) {
	d := open(t, docket.Options{Limits: docket.Limits{Events: 2}})
	s := d.session()
	s.runs("b", "a")
	s.do("BEGIN")
	s.insert("b", 1)
	other := d.session()
	for seq := range 3 {
		other.insert("a", seq+1)
	}
	want := func(mark string) {
		t.Helper()
		b := d.poll()
		got := "none"
		if b.Mark != nil {
			got = fmt.Sprintf("%d %s/%d", b.Mark.EventID, b.Mark.RunID, b.Mark.Seq)
			at := pgtest.Value[time.Time](t, other.Conn, `SELECT inserted_at FROM docket_events WHERE id = $1`, b.Mark.EventID)
			if !b.Mark.InsertedAt.Equal(at) {
				t.Fatalf("inserted at %v, want %v", b.Mark.InsertedAt, at)
			}
		}
		if got != mark {
			t.Fatalf("mark %s, want %s", got, mark)
		}
	}
	want("3 a/2")
	want("4 a/3")
	want("none")
	s.do("COMMIT")
	want("none") // an open id below the mark
	d.wantGot("a/1", "a/2", "a/3", "b/1")
}

// A consumer whose filter keeps nothing has a mark, too.
func TestMarkOfFilteredAndUndecodableRows(t *testing.T) {
	types, err := docket.ParseFilter("run_*")
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, docket.Options{Filters: docket.Filters{Types: types}})
	s := d.session()
	s.runs("r")
	s.insert("r", 1)
	b := d.poll()
	if b.Mark == nil || b.Mark.EventID != 1 || b.Mark.RunID != "r" {
		t.Fatalf("mark %+v", b.Mark)
	}
	first := b.Mark.Hash
	d.at.High = 0
	s.do(`UPDATE docket_events SET inserted_at = inserted_at + interval '1 microsecond'`)
	if b = d.poll(); b.Mark == nil || b.Mark.Hash == first {
		t.Fatal("another row has the same hash")
	}
	s.do(`INSERT INTO docket_events SELECT nextval('docket_events_id_seq'), 'r', 2, 'run_started', 0, NULL, NULL, NULL, '\x00', metadata, now(), now() FROM docket_events`)
	if b = d.poll(); len(b.Poison) != 1 || b.Mark == nil || b.Mark.Seq != 2 {
		t.Fatalf("mark %+v", b.Mark)
	}
}

func TestReadAt(t *testing.T) {
	d := open(t, docket.Options{Limits: docket.Limits{Events: 2}})
	s := d.session()
	s.runs("r")
	now := func() time.Time { return pgtest.Value[time.Time](t, s.Conn, `SELECT clock_timestamp()`) }
	for seq := range 3 {
		s.insert("r", seq+1)
	}
	s.do(`UPDATE docket_events SET inserted_at = now() - interval '1 hour' * (10 - id)`)
	before := now()
	b := d.poll()
	if age := before.Sub(b.ReadAt); age < 8*time.Hour || age > 8*time.Hour+time.Minute {
		t.Fatalf("after a cut the position is %v old, want that of row 2", age)
	}
	for range 3 { // the end of the rows, nothing, and nothing by the short statement
		before = now()
		if b = d.poll(); b.ReadAt.Before(before) || b.ReadAt.After(now()) {
			t.Fatalf("read at %v, want the time of the poll, %v", b.ReadAt, before)
		}
	}
	s.insert("r", 4)
	s.insert("r", 5)
	s.insert("r", 6)
	s.do(`UPDATE docket_events SET inserted_at = now() + interval '1 hour' WHERE id > 3`)
	if b = d.poll(); !b.ReadAt.IsZero() {
		t.Fatalf("read at %v, which an application's clock has made up", b.ReadAt)
	}
}
