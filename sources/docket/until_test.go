package docket_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

// bounded is a reader with an end beside the one that goes on from it.
func (d *database) bounded(from, until exporter.Position, o docket.Options) *database {
	o.Schema = "public"
	b := &database{t: d.t, dsn: d.dsn, pool: d.pool, at: from}
	b.reader = docket.NewUntil(docket.New(d.pool, o).Impatient(), until)
	return b
}

const pollTime = 10 * time.Second

// drainUntil polls until the position covers an end.
func (d *database) drainUntil(until exporter.Position) {
	d.t.Helper()
	pgtest.Until(d.t, pollTime, "the end", func() bool {
		if d.at.Covers(until) {
			return true
		}
		d.poll()
		return false
	})
}

// The events up to a position and those from it are all events, each once, also
// with an id that is open in the position and appears before or after the
// bounded reader comes to it.
func TestBoundedAndFollowingReaderMeet(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprintf("hole filled early %v", early), func(t *testing.T) {
			d := open(t, docket.Options{Limits: docket.Limits{Events: 2}})
			w := d.session()
			w.runs("a", "b", "late")
			w.insert("a", 1)
			w.insert("a", 2)
			late := d.session()
			late.do("BEGIN")
			late.insert("late", 1)
			w.insert("b", 1)
			w.insert("b", 2)
			d.drain()
			until := d.at // what a live consumer has done: the late id is open in it
			w.insert("b", 3)
			w.insert("b", 4)
			if early {
				late.do("COMMIT")
			}
			b := d.bounded(exporter.Position{}, until, docket.Options{Limits: docket.Limits{Events: 2}})
			b.drainUntil(until)
			b.wantGot("a/1", "a/2", "b/1", "b/2")
			if b.at.String() != until.String() {
				t.Fatalf("ended at %s, want %s", b.at, until)
			}
			if !early {
				late.do("COMMIT")
			}
			d.got = nil
			d.drain()
			slices.Sort(d.got)
			d.wantGot("b/3", "b/4", "late/1")
		})
	}
}

// An id below the end that nobody has settled is waited for: it is the bounded
// reader's own.
func TestBoundedReaderWaitsForItsOwnIDs(t *testing.T) {
	d := open(t, docket.Options{})
	w := d.session()
	w.runs("a", "late")
	w.insert("a", 1)
	late := d.session()
	late.do("BEGIN")
	late.insert("late", 1)
	w.insert("a", 2)
	w.insert("a", 3)
	until := exporter.Position{High: 3} // as a person wrote it: the open id is not excepted
	b := d.bounded(exporter.Position{}, until, docket.Options{})
	for range 5 {
		if x := b.poll(); x.To.Covers(until) || x.More {
			t.Fatalf("batch to %s, more %v", x.To, x.More)
		}
	}
	b.wantGot("a/1", "a/2")
	late.do("COMMIT")
	b.drainUntil(until)
	b.wantGot("a/1", "a/2", "late/1")
	b.wantAt("3")
}

// What ends in the middle of a page, in ids that were never used, or at the top
// of a quiet table is reached all the same.
func TestBoundedReaderReachesItsEnd(t *testing.T) {
	d := open(t, docket.Options{})
	w := d.session()
	w.runs("a")
	for seq := 1; seq <= 5; seq++ {
		w.insert("a", seq)
	}
	w.do("SELECT nextval('docket_events_id_seq') FROM generate_series(1, 4)") // 6 to 9 are burned
	for _, x := range []struct{ from, until string }{{"0", "3"}, {"2", "5"}, {"0", "7"}, {"0", "9"}, {"5", "8"}} {
		from, until := position(t, x.from), position(t, x.until)
		b := d.bounded(from, until, docket.Options{Limits: docket.Limits{Events: 2}})
		b.drainUntil(until)
		if want := min(until.High, 5) - min(from.High, 5); int64(len(b.got)) != want || b.at.String() != until.String() {
			t.Errorf("from %s until %s: delivered %v at %s", from, until, b.got, b.at)
		}
	}
}

func position(t *testing.T, text string) exporter.Position {
	t.Helper()
	p, err := exporter.ParsePosition(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// At random: whatever the end, the two readers miss nothing and share nothing,
// and a batch is what Replay makes of its two positions.
func TestBoundedReadersAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for round := range 6 {
		d := open(t, docket.Options{Limits: docket.Limits{Events: 1 + rng.IntN(4)}})
		w := d.session()
		var open []*session
		for i := range 30 {
			run := fmt.Sprintf("r%d", i)
			w.runs(run)
			s := w
			if rng.IntN(4) == 0 {
				s = d.session()
				s.do("BEGIN")
				open = append(open, s)
			}
			s.insert(run, 1)
			if rng.IntN(3) == 0 {
				d.poll()
			}
		}
		until := d.at
		for _, s := range open {
			if rng.IntN(2) == 0 {
				s.do([]string{"COMMIT", "ROLLBACK"}[rng.IntN(2)])
			}
		}
		b := d.bounded(exporter.Position{}, until, docket.Options{
			Limits:  docket.Limits{Events: 1 + rng.IntN(4)},
			Filters: docket.Filters{Types: filter(t, "node_*")},
		})
		for !b.at.Covers(until) {
			from := b.at
			x := b.poll()
			again, err := b.reader.Replay(t.Context(), from, x.To)
			if err != nil {
				t.Fatal(err)
			}
			if again.Hash() != x.Hash() || again.Rows != x.Rows {
				t.Fatalf("round %d: from %s to %s: %d of %d rows, again %d of %d", round, from, x.To, len(x.Events), x.Rows, len(again.Events), again.Rows)
			}
		}
		for _, s := range open {
			if s.PgConn().TxStatus() == 'T' {
				s.do("COMMIT")
			}
		}
		follow := &database{t: t, dsn: d.dsn, pool: d.pool, at: until, source: docket.New(d.pool, docket.Options{Schema: "public"}).Impatient()}
		pgtest.Until(t, pollTime, "the follower to settle every id", func() bool { follow.drain(); return len(follow.at.Holes) == 0 })
		both := append(slices.Clone(b.got), follow.got...)
		slices.Sort(both)
		rows, err := w.Query(t.Context(), `SELECT run_id || '/' || seq FROM docket_events`)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if slices.Sort(all); !slices.Equal(both, all) {
			t.Fatalf("round %d until %s: the readers have %v, the table %v", round, until, both, all)
		}
	}
}

func filter(t *testing.T, list string) docket.Filter {
	t.Helper()
	f, err := docket.ParseFilter(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A run's id is matched exactly, whatever it holds.
func TestExactRuns(t *testing.T) {
	d := open(t, docket.Options{})
	w := d.session()
	names := []string{"a%", "ab", "!a", "a,b", "a*", "a_", "ax", "=a"}
	w.runs(names...)
	for _, name := range names {
		w.insert(name, 1)
	}
	for _, name := range names {
		only, err := docket.FilterOf([]string{"=" + name})
		if err != nil {
			t.Fatal(err)
		}
		b := d.bounded(exporter.Position{}, exporter.Position{High: 8}, docket.Options{Filters: docket.Filters{Runs: only}})
		b.drainUntil(exporter.Position{High: 8})
		b.wantGot(name + "/1")
	}
}

func TestPressure(t *testing.T) {
	d := open(t, docket.Options{})
	read := func() docket.Pressure {
		t.Helper()
		p, err := docket.ReadPressure(t.Context(), d.pool, "public")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := read(); p != (docket.Pressure{}) {
		t.Fatalf("a calm server shows %+v", p)
	}
	reader := d.session()
	reader.do("BEGIN")
	reader.do("SELECT count(*) FROM docket_events")
	waits := d.session()
	waits.do("BEGIN")
	done := make(chan error, 1)
	go func() {
		_, err := waits.Exec(t.Context(), "LOCK TABLE docket_events")
		done <- err
	}()
	pgtest.Until(t, pollTime, "a waiting lock to show", func() bool { return read().WaitingLocks == 1 })
	reader.do("ROLLBACK")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	waits.do("ROLLBACK")
	pgtest.Until(t, pollTime, "calm", func() bool { return read().WaitingLocks == 0 })
}
