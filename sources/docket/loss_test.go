package docket_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// resumed is a consumer that has read everything up to age ago and starts anew
// behind the rows that exist. Docket is said to keep events for kept.
func resumed(t *testing.T, kept, age time.Duration, change ...func(*docket.Options)) (*database, *session) {
	t.Helper()
	o := docket.Options{Retention: kept, Loss: docket.LossRule{ReadAt: time.Now().Add(-age)}}
	for _, c := range change {
		c(&o)
	}
	d := open(t, o)
	return d, d.session()
}

// insertOld adds events of a run that began, and were inserted, age ago.
func (s *session) insertOld(run string, from, to int, age time.Duration) {
	s.t.Helper()
	s.runs(run)
	s.do("UPDATE docket_runs SET started_at = least(started_at, $2) WHERE run_id = $1", run, time.Now().Add(-age))
	for seq := from; seq <= to; seq++ {
		s.insertAt(run, seq, time.Now().Add(-age))
	}
}

// prune deletes as Docket's pruner does.
func (s *session) prune(kept time.Duration) {
	s.t.Helper()
	s.do("DELETE FROM docket_events WHERE inserted_at < now() - $1::interval", kept)
}

// losses drains the source, passing what it finds as the pipeline does.
func (d *database) losses() (found []exporter.Loss) {
	d.t.Helper()
	for range 1000 {
		b, err := d.source.Poll(d.t.Context(), d.at)
		if err != nil {
			d.t.Fatal(err)
		}
		if len(b.Losses) > 0 {
			found = append(found, b.Losses...)
			d.pass(b.Losses)
			continue
		}
		if d.take(b); b.Empty() && !b.More && !b.Waiting {
			return found
		}
	}
	d.t.Fatal("a thousand polls did not reach the end")
	return nil
}

func (d *database) pass(losses []exporter.Loss) {
	for _, l := range losses {
		high := max(d.at.High, l.IDs.Hi)
		d.at = d.at.Advance(high, exporter.Ranges{{Lo: d.at.High + 1, Hi: high}}.Minus(l.Exactly)).Fill(l.Exactly)
	}
}

func wantLoss(t *testing.T, got []exporter.Loss, lo, hi, count int64, runs ...string) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("losses %+v, want one", got)
	}
	var named []string
	for _, r := range got[0].Runs {
		named = append(named, r.String())
	}
	slices.Sort(named)
	l := got[0]
	if l.Kind != exporter.LossPruned || l.IDs != (exporter.Range{Lo: lo, Hi: hi}) || l.Count != count || l.Certain != (len(runs) > 0) || !slices.Equal(named, runs) {
		t.Fatalf("loss %+v, runs %v; want %d to %d, %d ids, runs %v", l, named, lo, hi, count, runs)
	}
}

func wantNoLoss(t *testing.T, got []exporter.Loss) {
	t.Helper()
	if len(got) > 0 {
		t.Fatalf("losses %+v, want none", got)
	}
}

// The pruner overtook a stopped consumer: the range is exact, and so are the
// runs that the surviving events prove.
func TestPrunedBehindAStoppedConsumerIsALoss(t *testing.T) {
	d, s := resumed(t, day, 5*day)
	s.insertOld("delivered", 1, 10, 5*day)
	d.at = exporter.Position{High: 10}
	s.insertOld("gone", 1, 5, 3*day)   // 11 to 15
	s.insertOld("broken", 1, 4, 2*day) // 16 to 19
	s.prune(day)
	s.insertOld("broken", 5, 6, hour) // 20, 21
	s.insertOld("whole", 1, 2, hour)
	got := d.losses()
	wantLoss(t, got, 11, 19, 9, "broken/1-4", "gone/1-")
	if since := time.Since(got[0].Since); since < 5*day-hour || since > 5*day+hour {
		t.Errorf("window from %v", got[0].Since)
	}
	if until := time.Since(got[0].Until); until < day-hour || until > day+hour {
		t.Errorf("window to %v", got[0].Until)
	}
	d.wantGot("broken/5", "broken/6", "whole/1", "whole/2")
}

// Nothing survives to compare with, and a transaction keeps the tail unsettled
// for a while.
func TestPrunedTailIsALoss(t *testing.T) {
	d, s := resumed(t, day, 3*day)
	s.insertOld("r", 1, 4, 2*day)
	s.prune(day)
	open := d.session()
	open.do("BEGIN")
	open.do("SELECT nextval('docket_events_id_seq')")
	d.at = exporter.Position{High: 1}
	for range 3 {
		if b := d.poll(); len(b.Losses) > 0 || b.To.High != 1 {
			t.Fatalf("batch to %s, losses %+v before the tail is settled", b.To, b.Losses)
		}
	}
	open.do("ROLLBACK")
	var got []exporter.Loss
	pgtest.Until(t, 5*time.Second, "the loss", func() bool {
		got = append(got, d.losses()...)
		return len(got) > 0
	})
	wantLoss(t, got, 2, 5, 4, "r/1-") // 5 was drawn and rolled back: the count is an upper bound
	d.wantAt("5")
}

// The told retention is longer than the real one: the first events of young
// runs are gone, so the age of the oldest event counts.
func TestLossWhileTheRetentionIsToldTooLong(t *testing.T) {
	d, s := resumed(t, 30*day, 2*day)
	s.insertOld("r", 1, 3, 36*hour)
	s.prune(day)
	s.insertOld("r", 4, 5, hour)
	wantLoss(t, d.losses(), 1, 3, 3, "r/1-3")
	d.wantGot("r/4", "r/5")
}

// The told retention is shorter than the real one: nothing has reached the real
// one, and what is gone all the same is proven by its run.
func TestALossIsProvenWhileTheRetentionIsToldTooShort(t *testing.T) {
	d, s := resumed(t, day, 4*day)
	s.insertOld("kept", 1, 10, 5*day) // nothing was pruned by its age
	d.at = exporter.Position{High: 10}
	s.insertOld("broken", 1, 5, 3*day) // 11 to 15
	s.do("DELETE FROM docket_events WHERE run_id = 'broken'")
	s.insertOld("broken", 6, 8, hour)
	wantLoss(t, d.losses(), 11, 15, 5, "broken/1-5")
}

// Rows that were inserted with a time in the past are pruned at once, although
// the position is fresh.
func TestBackDatedRowsPrunedAtOnceAreALoss(t *testing.T) {
	d, s := resumed(t, day, 0)
	s.insertOld("other", 1, 1, 20*hour)
	d.losses()
	s.runs("r")
	for seq := 1; seq <= 3; seq++ {
		s.insertAt("r", seq, time.Now().Add(-2*day))
	}
	s.prune(day)
	s.insert("r", 4)
	got := d.losses()
	pgtest.Until(t, 5*time.Second, "the look at dropped ids", func() bool {
		got = append(got, d.losses()...)
		s.insert("other", int(d.at.High)) // a position that stands still is not read
		return len(got) > 0
	})
	wantLoss(t, got, 2, 4, 3, "r/1-3")
}

// Ids that were rolled back behind a fresh position are no loss, also when the
// consumer is always a little behind.
func TestRolledBackIDsAreNoLoss(t *testing.T) {
	d, s := resumed(t, day, hour)
	s.runs("r")
	for i := range 20 {
		s.do("BEGIN")
		s.insert("r", 100)
		s.do("ROLLBACK")
		s.insert("r", i+1)
		if i%3 == 0 {
			wantNoLoss(t, d.losses())
		}
	}
	wantNoLoss(t, d.losses())
}

// An idle week is read all the time. A restart with a burned id changes nothing.
func TestAnIdleWeekIsNoLoss(t *testing.T) {
	d, s := resumed(t, day, time.Second)
	s.insertOld("r", 1, 3, 8*day)
	s.prune(day)
	d.at = exporter.Position{High: 3}
	wantNoLoss(t, d.losses())
	s.do("SELECT nextval('docket_events_id_seq')")
	pgtest.Until(t, 5*time.Second, "the burned id to be passed", func() bool {
		wantNoLoss(t, d.losses())
		return d.at.String() == "4"
	})
}

// What was pruned before a new consumer began is not its loss.
func TestANewConsumerHasNoLoss(t *testing.T) {
	d, s := resumed(t, day, 0, func(o *docket.Options) { o.Loss.ReadAt = time.Time{} })
	s.insertOld("r", 1, 6, 2*day)
	s.prune(day)
	s.insertOld("q", 1, 2, hour)
	wantNoLoss(t, d.losses())
	d.wantGot("q/1", "q/2")
}

// An open id is as old as its first sight, however fresh the position is.
func TestAnOpenIDThatOutlivesTheRetentionIsALoss(t *testing.T) {
	d, s := resumed(t, day, 0, func(o *docket.Options) { o.Loss.HoleAge = 2 * day })
	s.insertOld("r", 1, 2, hour)
	s.do("SELECT nextval('docket_events_id_seq'), nextval('docket_events_id_seq')")
	s.insertOld("r", 3, 3, 0)
	d.at = exporter.Position{High: 5, Holes: exporter.Ranges{{Lo: 3, Hi: 4}}}
	wantLoss(t, d.losses(), 3, 4, 2)
}

// A filter leaves rows out that are there.
func TestAFilterIsNoLoss(t *testing.T) {
	types, err := docket.ParseFilter("other")
	if err != nil {
		t.Fatal(err)
	}
	d, s := resumed(t, day, 2*day, func(o *docket.Options) { o.Filters.Types = types })
	s.insertOld("r", 1, 50, hour)
	wantNoLoss(t, d.losses())
}

// With Wait nothing behind a gap is taken before it is known whether it is a loss.
func TestNothingBehindAnUnsettledGapIsTaken(t *testing.T) {
	d, s := resumed(t, day, 2*day, func(o *docket.Options) { o.Loss.Wait = true })
	s.insertOld("r", 1, 3, 36*hour)
	open := d.session()
	open.do("BEGIN")
	open.do("SELECT nextval('docket_events_id_seq')")
	s.prune(day)
	s.insertOld("r", 4, 5, hour)
	for range 3 {
		if b := d.poll(); !b.Waiting || len(b.Events) > 0 || b.To.High != 0 || len(b.Blocked) != 1 || len(b.Blocked[0].Holders) != 1 {
			t.Fatalf("batch %+v", b)
		}
	}
	open.do("COMMIT")
	wantLoss(t, d.losses(), 1, 4, 4, "r/1-3")
	d.wantGot("r/4", "r/5")
}

// A loss is found again while nothing has been recorded, and its ranges are bounded.
func TestLossesAreFoundUntilTheyArePassed(t *testing.T) {
	d, s := resumed(t, day, 2*day)
	s.runs("r")
	s.do("SELECT count(nextval('docket_events_id_seq')) FROM generate_series(1, 10)")
	s.do(`INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT 'r', n, 't', 0, $1, $1, now(), now() - nextval('docket_events_id_seq') * interval '0' FROM generate_series(1, 1200) n`,
		docketsim.EncodeEvent(map[string]any{}))
	var first exporter.Batch
	for range 3 {
		b, err := d.source.Poll(t.Context(), d.at)
		if err != nil || len(b.Losses) != 1 || len(b.Losses[0].Exactly) != 1000 {
			t.Fatalf("losses %+v, %v", b.Losses, err)
		}
		if first.Losses != nil && cmp.Diff(first.Losses[0].Exactly, b.Losses[0].Exactly) != "" {
			t.Fatal("another loss at the second look")
		}
		first = b
	}
	got := d.losses()
	if len(got) != 2 || got[0].Count+got[1].Count != 1210 {
		t.Fatalf("losses %d", len(got))
	}
	var want []string
	for seq := range 1200 {
		want = append(want, fmt.Sprintf("r/%d", seq+1))
	}
	d.wantGot(want...)
}
