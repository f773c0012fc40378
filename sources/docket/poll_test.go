package docket_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

func TestEmptyTable(t *testing.T) {
	d := open(t, docket.Options{})
	b := d.poll()
	if !b.Empty() || b.More {
		t.Fatalf("batch %+v from an empty table", b)
	}
	d.wantAt("0")
}

func TestLateCommitBelowThePosition(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	a.do("BEGIN")
	a.insert("r1", 1)
	b.insert("r2", 1)
	for range 10 {
		d.poll()
	}
	d.wantGot("r2/1")
	d.wantAt("2-{[1,1]}")
	a.do("COMMIT")
	if got := d.poll(); got.Filled != 1 {
		t.Fatalf("filled %d, want 1", got.Filled)
	}
	d.wantGot("r2/1", "r1/1")
	d.wantAt("2")
}

// An id drawn and kept for later holds no transaction id and no row: only the
// lock on the sequence shows it.
func TestDrawnIDStaysOpenUntilItsTransactionEnds(t *testing.T) {
	for name, draw := range map[string][]string{
		"nextval only": {"BEGIN", "SELECT nextval('docket_events_id_seq')"},
		"savepoint":    {"BEGIN", "SAVEPOINT s", "SELECT nextval('docket_events_id_seq')", "ROLLBACK TO s"},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, docket.Options{})
			a, b := d.session(), d.session()
			a.runs("r1", "r2")
			for _, sql := range draw {
				a.do(sql)
			}
			b.insert("r2", 1)
			for range 5 {
				d.poll()
			}
			d.wantAt("2-{[1,1]}")
			a.do(`INSERT INTO docket_events SELECT 1, 'r1', 1, type, step, NULL, NULL, NULL, payload, metadata, now(), now() FROM docket_events`)
			d.poll()
			a.do("COMMIT")
			d.poll()
			d.wantGot("r2/1", "r1/1")
			d.wantAt("2")
		})
		t.Run(name+", never used", func(t *testing.T) {
			d := open(t, docket.Options{})
			a, b := d.session(), d.session()
			a.runs("r2")
			for _, sql := range draw {
				a.do(sql)
			}
			b.insert("r2", 1)
			d.poll()
			d.wantAt("2-{[1,1]}")
			a.do("COMMIT")
			d.poll()
			d.wantAt("2")
			if d.last.Dead.String() != "{[1,1]}" {
				t.Fatalf("dead %s", d.last.Dead)
			}
		})
	}
}

func TestPreparedTransactionKeepsItsID(t *testing.T) {
	d := open(t, docket.Options{})
	b := d.prepared()
	for range 2 {
		d.poll()
	}
	d.wantAt("2-{[1,1]}")
	if holders := d.last.Blocked[0].Holders; len(holders) != 1 || holders[0].Prepared != "held-back" {
		t.Fatalf("holders %+v, want the prepared transaction by its name", holders)
	}
	b.do("COMMIT PREPARED 'held-back'")
	d.poll()
	d.wantGot("r2/1", "r1/1")
}

func TestHoldersAreNamedAndOthersDoNotCount(t *testing.T) {
	d := open(t, docket.Options{})
	reader, rolledBack, writer := d.session(), d.session(), d.session()
	writer.runs("r1", "r2")
	reader.do("BEGIN")
	reader.do("SELECT * FROM docket_events LIMIT 1")
	rolledBack.do("BEGIN")
	rolledBack.insert("r1", 1)
	rolledBack.do("ROLLBACK")
	for seq := range 100 {
		writer.insert("r2", seq+1)
	}
	d.poll()
	d.wantAt("101") // the idle reader keeps nothing open

	holder := d.session()
	holder.do("SET application_name = 'forgotten psql'")
	holder.do("BEGIN")
	holder.insert("r1", 1)
	for seq := range 100 {
		writer.insert("r2", seq+101)
	}
	d.drain()
	d.wantAt("202-{[102,102]}")
	pid := pgtest.Value[int32](t, holder.Conn, "SELECT pg_backend_pid()")
	for range 3 { // a restarted exporter names it again
		held := d.last.Blocked[0]
		if len(held.Holders) != 1 || held.Holders[0].PID != pid || held.Holders[0].Application != "forgotten psql" || held.Holders[0].Since.IsZero() {
			t.Fatalf("holders %+v, want pid %d", held.Holders, pid)
		}
		d.source = docket.New(d.pool, docket.Options{}).Impatient()
		d.poll()
	}
	later := d.session()
	later.do("BEGIN")
	second := later.insert("r1", 2)
	writer.insert("r2", 201)
	d.drain()
	holder.do("ROLLBACK")
	d.poll()
	d.wantAt(fmt.Sprintf("%d-{[%d,%d]}", second+1, second, second))
	later.do("COMMIT")
	d.drain()
	d.wantAt(fmt.Sprint(second + 1))
	if got := d.got[len(d.got)-1]; got != "r1/2" {
		t.Fatalf("last delivered %s", got)
	}
}

func TestGapsBehindOneHolderGoAtOnce(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	a.do("BEGIN")
	for range 3 {
		a.do("SELECT nextval('docket_events_id_seq')")
		b.insert("r2", len(d.got)+1)
		d.drain()
	}
	d.wantAt("6-{[1,1],[3,3],[5,5]}")
	a.do("ROLLBACK")
	d.poll()
	d.wantAt("6")
}

// Ids burned by ON CONFLICT DO NOTHING are settled in the poll that finds them.
func TestBurnedIDsAreSettledInTheSamePoll(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	var dead int64
	for k := 1; k <= 50; k++ {
		s.insert("r1", k)
		s.do(`INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
			SELECT run_id, seq, type, step, payload, metadata, occurred_at, inserted_at FROM docket_events WHERE run_id = 'r1' AND seq = $1
			ON CONFLICT (run_id, seq) DO NOTHING`, k)
		dead += d.poll().Dead.Count()
		if len(d.at.Holes) != 0 {
			t.Fatalf("round %d: position %s", k, d.at)
		}
	}
	if len(d.got) != 50 || dead != 49 {
		t.Fatalf("delivered %d and dropped %d, want 50 and 49", len(d.got), dead)
	}
	d.pollUntil("100") // the last one, above all rows
}

// Everything above the last row is burned: the position follows, so that the
// lag does not lie.
func TestBurnedTail(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	s.insert("r1", 1)
	d.poll()
	s.do("BEGIN")
	s.insert("r1", 2)
	s.insert("r1", 3)
	d.poll()
	d.wantAt("1")
	s.do("ROLLBACK")
	d.pollUntil("3") // not before the sequence's step is on disk
}

func TestIdleHolderDoesNotKeepLaterBurnedIDsOpen(t *testing.T) {
	d := open(t, docket.Options{})
	idle, s := d.session(), d.session()
	s.runs("r1", "r2")
	idle.do("BEGIN")
	idle.insert("r1", 1)
	s.insert("r2", 1)
	d.drain()
	d.drain()
	conflict := `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT run_id, seq, type, step, payload, metadata, now(), now() FROM docket_events WHERE run_id = 'r2' AND seq = 1
		ON CONFLICT (run_id, seq) DO NOTHING`
	for seq := 2; seq <= 1101; seq++ {
		s.do(conflict)
		s.insert("r2", seq)
	}
	d.drain()
	if len(d.got) != 1101 {
		t.Fatalf("delivered %d, want 1101", len(d.got))
	}
	if len(d.at.Holes) != 1 {
		t.Fatalf("%d open ranges, want only the idle holder's own", len(d.at.Holes))
	}
	idle.do("COMMIT")
	d.drain()
	if d.got[len(d.got)-1] != "r1/1" || len(d.at.Holes) != 0 {
		t.Fatalf("position %s, last %s", d.at, d.got[len(d.got)-1])
	}
}

// A holder that wakes up and draws again is no idle holder.
func TestHolderThatWakesUpKeepsItsNewIDOpen(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	b.runs("r1", "r2")
	a.do("BEGIN")
	a.insert("r1", 1)
	for seq := 1; seq <= 5; seq++ {
		b.insert("r2", seq)
		d.poll()
	}
	a.insert("r1", 2)
	b.insert("r2", 6)
	for range 3 {
		d.poll()
	}
	d.wantAt("8-{[1,1],[7,7]}")
	a.do("COMMIT")
	d.drain()
	d.wantAt("8")
	if tail := d.got[len(d.got)-2:]; !slices.Equal(tail, []string{"r1/1", "r1/2"}) {
		t.Fatalf("the run came as %v", tail)
	}
}

func TestReversedInsertsOfOneTransactionAreOrdered(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.do("BEGIN")
	s.insert("r", 2)
	s.insert("r", 1)
	s.do("COMMIT")
	d.drain()
	d.wantGot("r/1", "r/2")
}

func TestLimitsCutAndLoseNothing(t *testing.T) {
	d := open(t, docket.Options{Limits: docket.Limits{Events: 3, Bytes: 2000}})
	holder, s := d.session(), d.session()
	s.runs("r1", "r2")
	holder.do("BEGIN")
	for seq := 1; seq <= 10; seq++ {
		holder.insert("r1", seq)
		s.insert("r2", seq)
		if b := d.poll(); len(b.Events) > 3 {
			t.Fatalf("%d events in a batch of 3", len(b.Events))
		}
	}
	holder.do("COMMIT")
	s.insert("r2", 11)
	high := d.at.High
	first := d.poll()
	if !first.More || first.To.High != high || len(first.Events) == 0 {
		t.Fatalf("the open ids did not come first: %+v", first)
	}
	d.drain()
	d.wantOrdered(map[string]int{"r1": 10, "r2": 11})
	d.wantAt("21")
}

// wantOrdered checks that each run came complete and in order.
func (d *database) wantOrdered(want map[string]int) {
	d.t.Helper()
	next := map[string]int{}
	for _, g := range d.got {
		run, seq, _ := strings.Cut(g, "/")
		next[run]++
		if seq != fmt.Sprint(next[run]) {
			d.t.Fatalf("%s came when %s/%d was due", g, run, next[run])
		}
	}
	for run, n := range want {
		if next[run] != n {
			d.t.Fatalf("%d events of %s, want %d", next[run], run, n)
		}
	}
}

// One row is read however big it is, and a page stops before the next.
func TestByteLimit(t *testing.T) {
	d := open(t, docket.Options{Limits: docket.Limits{Bytes: 1 << 20}})
	s := d.session()
	s.runs("r")
	for seq, kb := range []int{3000, 600, 600, 1, 1, 5000} {
		payload := append([]byte("\x83h\x04w\x06docketa\x01w\x05eventt\x00\x00\x00\x01m\x00\x00\x00\x01vm"), byte(kb<<10>>24), byte(kb<<10>>16), byte(kb<<10>>8), 0)
		payload = append(payload, []byte(strings.Repeat("x", kb<<10))...)
		s.do(`INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
			VALUES ('r', $1, 't', 0, $2, '\x8368047706646f636b6574610177056576656e747400000000', now(), now())`, seq+1, payload)
	}
	var sizes []int
	for {
		b := d.poll()
		if b.Empty() && !b.More {
			break
		}
		sizes = append(sizes, len(b.Events))
		for _, e := range b.Events {
			if len(e.Payload) < 1<<10 {
				t.Fatalf("payload of event %d has %d bytes", e.ID, len(e.Payload))
			}
		}
	}
	if !slices.Equal(sizes, []int{1, 1, 3, 1}) {
		t.Fatalf("batches of %v events", sizes)
	}
	d.wantOrdered(map[string]int{"r": 6})
}

func TestFilteredRowsAreDone(t *testing.T) {
	types, err := docket.ParseFilter("node_*,!node_failed")
	if err != nil {
		t.Fatal(err)
	}
	tenants, _ := docket.ParseFilter("acme")
	d := open(t, docket.Options{Filters: docket.Filters{Types: types, Tenants: tenants}})
	s := d.session()
	s.do(insertRun, "mine", "acme", "chain")
	s.do(insertRun, "theirs", "acme_2", "chain")
	s.insertType("mine", 1, "node_completed")
	s.insertType("mine", 2, "node_failed")
	s.insertType("mine", 3, "nodeXcompleted")
	s.insertType("theirs", 1, "node_completed")
	b := d.poll()
	d.wantGot("mine/1")
	d.wantAt("4")
	if b.Rows != 4 {
		t.Fatalf("%d rows, want 4", b.Rows)
	}
	if e := b.Events[0]; e.TenantID.Value != "acme" || e.GraphHash.Value != "hash-of-chain" || e.NodeID.Present {
		t.Fatalf("event %+v", e)
	}
}

func TestHistoryFullOfPrunedIDsIsSettledOnce(t *testing.T) {
	d := open(t, docket.Options{Limits: docket.Limits{Events: 1000}})
	s := d.session()
	s.runs("r")
	s.do(`INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT 'r', n, 't', 0, '\x8368047706646f636b6574610177056576656e747400000000', '\x8368047706646f636b6574610177056576656e747400000000', now(), now()
		FROM generate_series(1, 20000) n`)
	s.do(`DELETE FROM docket_events WHERE id < 10000 OR id % 2 = 0`)
	d.drain()
	if len(d.got) != 5000 || len(d.at.Holes) != 0 {
		t.Fatalf("delivered %d, position %s", len(d.got), d.at)
	}
}

func TestOpenRangesAreCapped(t *testing.T) {
	d := open(t, docket.Options{Limits: docket.Limits{Events: 50_000}})
	holder, s := d.session(), d.session()
	s.runs("r1", "r2")
	holder.do("BEGIN")
	holder.insert("r1", 1)
	s.do(`INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT 'r2', n, 't', 0, '\x8368047706646f636b6574610177056576656e747400000000', '\x8368047706646f636b6574610177056576656e747400000000', now(), now()
		FROM generate_series(1, 22000) n`)
	s.do(`DELETE FROM docket_events WHERE id % 2 = 0`) // looks as if the holder might own each of them
	d.drain()
	if n := len(d.at.Holes); n < docket.MaxOpenRanges {
		t.Fatalf("%d open ranges, want the cap reached", n)
	}
	stuck := d.at
	s.insert("r2", 22001)
	d.drain()
	if !d.at.Equal(stuck) {
		t.Fatal("read on above the cap")
	}
	if h := d.last.Blocked; len(h) == 0 || len(h[0].Holders) != 1 {
		t.Fatalf("blocked %+v, want the holder named", h)
	}
	holder.do("COMMIT")
	d.drain()
	if len(d.at.Holes) != 0 || d.at.High != 22002 {
		t.Fatalf("position %s", d.at)
	}
	if got := d.got[len(d.got)-2:]; !slices.Contains(got, "r1/1") {
		t.Fatalf("the late row did not come: %v", got)
	}
}

func TestReplayIsTheSameBatch(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	b.runs("r1", "r2")
	a.do("BEGIN")
	a.insert("r1", 1)
	for seq := 1; seq <= 20; seq++ {
		b.insert("r2", seq)
	}
	from := d.at
	first := d.poll()
	a.do("COMMIT")
	b.insert("r2", 21)
	again, err := docket.New(d.pool, docket.Options{Limits: docket.Limits{Events: 2}}).Replay(t.Context(), from, first.To)
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash() != first.Hash() || again.Rows != first.Rows {
		t.Fatalf("replayed %d rows as another batch than the %d read first", again.Rows, first.Rows)
	}
	b.do("DELETE FROM docket_events WHERE run_id = 'r2' AND seq <= 5")
	if again, err = d.source.Replay(t.Context(), from, first.To); err != nil || again.Rows != 15 {
		t.Fatalf("replayed %d rows, %v; want 15", again.Rows, err)
	}
}

func TestUndecodableRowIsPoisonAndUnknownVersionPauses(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.insert("r", 1)
	bad := s.insert("r", 2)
	s.insert("r", 3)
	s.do(`UPDATE docket_events SET payload = '\x8350' WHERE id = $1`, bad)
	b := d.poll()
	d.wantGot("r/1", "r/3")
	d.wantAt("3")
	if len(b.Poison) != 1 || b.Poison[0].Event.ID != bad || b.Poison[0].Class != docket.ClassUndecodable ||
		string(b.Poison[0].Event.EncodedPayload) != "\x83P" || !strings.Contains(b.Poison[0].Reason, "payload") {
		t.Fatalf("poison %+v", b.Poison)
	}
	next := s.insert("r", 4)
	s.do(`UPDATE docket_events SET metadata = '\x8368047706646f636b6574610277056576656e747400000000' WHERE id = $1`, next)
	err := d.wantPollError("another Docket version")
	var pause *exporter.PauseError
	if !errors.As(err, &pause) || pause.Reason != exporter.PausedUnknownVersion {
		t.Fatalf("%v", err)
	}
}

func TestSchemaNamesAreQuoted(t *testing.T) {
	const schema = `we"ird Schema`
	d := open(t, docket.Options{Schema: schema})
	s := d.session()
	s.do(`SELECT set_config('search_path', '"we""ird Schema"', false)`)
	run := strings.Repeat("x", 4096) // and a run id of 4 kB
	s.runs(run)
	s.insert(run, 1)
	s.do("BEGIN")
	s.insert(run, 2)
	s.do("ROLLBACK")
	d.drain()
	d.wantGot(run + "/1")
	d.pollUntil("2")
}

// A pooler gives each transaction another backend, and keeps nothing of a session.
func TestThroughPgBouncer(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"late commit":  TestLateCommitBelowThePosition,
		"drawn id":     TestDrawnIDStaysOpenUntilItsTransactionEnds,
		"prepared":     TestPreparedTransactionKeepsItsID,
		"holders":      TestHoldersAreNamedAndOthersDoNotCount,
		"burned ids":   TestBurnedIDsAreSettledInTheSamePoll,
		"idle holder":  TestIdleHolderDoesNotKeepLaterBurnedIDsOpen,
		"limits":       TestLimitsCutAndLoseNothing,
		"filters":      TestFilteredRowsAreDone,
		"replay":       TestReplayIsTheSameBatch,
		"poison":       TestUndecodableRowIsPoisonAndUnknownVersionPauses,
		"explicit id":  TestExplicitIDStopsTheConsumer,
		"sequence":     TestSequenceBelowThePosition,
		"new sequence": TestReplacedSequenceOrTable,
	} {
		t.Run(name, test)
	}
}
