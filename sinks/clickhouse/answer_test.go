package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/chserver"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// special reports whether err is more than an outage.
func special(err error) bool {
	_, rejected := errors.AsType[*exporter.RejectedError](err)
	_, refused := errors.AsType[*exporter.RefusedError](err)
	_, partial := errors.AsType[*exporter.PartialError](err)
	_, later := errors.AsType[*exporter.RetryAfterError](err)
	_, pause := errors.AsType[*exporter.PauseError](err)
	return rejected || refused || partial || later || pause
}

func wantPause(t *testing.T, err error, text string) {
	t.Helper()
	pause, ok := errors.AsType[*exporter.PauseError](err)
	if !ok || pause.Reason != exporter.PausedSink || !strings.Contains(pause.Detail, text) {
		t.Errorf("got %v, want a pause that says %q", err, text)
	}
}

// TestIdenticalRequestIsDropped and one that differs by a single event is not.
func TestIdenticalRequestIsDropped(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	cfg := Config{DSN: newServer.DSN(), Table: table, CreateTable: true}
	b := sinktest.Batch(1, 1, 7)
	six := b
	six.Events = append(append([]exporter.Event(nil), b.Events[:4]...), b.Events[5:]...)
	count := func(want uint64) {
		t.Helper()
		if n := number(t, conn, "SELECT count() FROM `"+table+"`"); n != want {
			t.Errorf("%d rows, want %d", n, want)
		}
	}
	deliver(t, open(t, cfg), six) // the fifth was rejected, and the answer got lost
	deliver(t, open(t, cfg), six)
	count(6)
	deliver(t, open(t, cfg), b) // all of them come again
	count(13)
	if n := number(t, conn, "SELECT count() FROM `"+table+"` FINAL"); n != 7 {
		t.Errorf("%d rows under FINAL, want 7", n)
	}
	again := b
	again.Number++ // a deliberate rewind
	deliver(t, open(t, cfg), again)
	count(20)
	if n := number(t, conn, "SELECT count() FROM `"+table+"` FINAL"); n != 7 {
		t.Errorf("%d rows under FINAL after a rewind, want 7", n)
	}
}

// TestRefusedRow has one row of a thousand that violates a constraint: nothing
// is accepted, and the reason names the constraint and no value.
func TestRefusedRow(t *testing.T) {
	conn := connect(t, newServer.DSN())
	for _, at := range []int{0, 499, 999} {
		table := tableOf(t, fmt.Sprint(at))
		exec(t, conn, DDL(table, DDLOptions{}))
		exec(t, conn, "ALTER TABLE `"+table+"` ADD CONSTRAINT no_secrets CHECK position(payload, 'secret') = 0")
		s, b := open(t, Config{DSN: newServer.DSN(), Table: table}), sinktest.Batch(1, 10, 100)
		b.Events[at].Payload = []byte(`{"text":"secret 4711"}`)
		err := s.Deliver(t.Context(), b)
		refused, ok := errors.AsType[*exporter.RefusedError](err)
		if !ok || refused.Class != "refused" || !strings.Contains(err.Error(), "469 VIOLATED_CONSTRAINT: constraint `no_secrets`") {
			t.Fatalf("got %v, want a refusal that names the constraint", err)
		}
		if strings.Contains(err.Error(), "4711") {
			t.Errorf("the error holds a value: %v", err)
		}
		if n := number(t, conn, "SELECT count() FROM `"+table+"`"); n != 0 {
			t.Errorf("%d rows of a refused batch are there", n)
		}
		b.Events = append(b.Events[:at], b.Events[at+1:]...)
		deliver(t, s, b)
		if n := number(t, conn, "SELECT count() FROM `"+table+"`"); n != 999 {
			t.Errorf("%d rows, want 999", n)
		}
	}
}

// TestRefusedAlone names an event that is refused by itself once the table has
// taken others, and not a second one before it has taken another.
func TestRefusedAlone(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	exec(t, conn, DDL(table, DDLOptions{}))
	exec(t, conn, "ALTER TABLE `"+table+"` ADD CONSTRAINT no_secrets CHECK position(payload, 'secret') = 0")
	s := open(t, Config{DSN: newServer.DSN(), Table: table})
	b := sinktest.Batch(1, 1, 5)
	bad := func(i int) exporter.Batch {
		one := b
		one.Number, one.Events = int64(i+1), b.Events[i:i+1]
		one.Events[0].Payload = []byte(`{"text":"secret 4711"}`)
		return one
	}
	named := func(err error) bool {
		rejected, ok := errors.AsType[*exporter.RejectedError](err)
		return ok && len(rejected.Rejections) == 1 && rejected.Rejections[0].Class == "refused" &&
			strings.Contains(rejected.Rejections[0].Reason, "no_secrets") && !strings.Contains(rejected.Rejections[0].Reason, "4711")
	}
	good := func(i int) exporter.Batch {
		one := b
		one.Number, one.Events = int64(i+1), b.Events[i:i+1]
		return one
	}
	want := func(what string, b exporter.Batch, yes bool) {
		t.Helper()
		if err := s.Deliver(t.Context(), b); err == nil || named(err) != yes {
			t.Errorf("%s: named %v, want %v: %v", what, named(err), yes, err)
		}
	}
	want("nothing was accepted yet", bad(0), false)
	deliver(t, s, good(3))
	want("others were accepted", bad(1), true)
	want("nothing was accepted since", bad(2), false)
	deliver(t, s, good(4))
	want("others were accepted again", bad(2), true)
}

// TestJSONColumn has payloads in ClickHouse's JSON type, which refuses integers
// above 64 bits.
func TestJSONColumn(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	exec(t, conn, DDL(table, DDLOptions{JSON: true}))
	s, b := open(t, Config{DSN: newServer.DSN(), Table: table}), sinktest.Batch(1, 2, 5)
	b.Events[3].Payload = nil // PAYLOAD=none
	deliver(t, s, b)
	if n := number(t, conn, "SELECT count() FROM `"+table+"` WHERE toString(payload.attempt) != ''"); n == 0 {
		t.Error("no row has the payload's attempt")
	}
	b = sinktest.Batch(2, 2, 5)
	b.Events[3].Payload = []byte(`{"n":12345678901234567890123}`)
	err := s.Deliver(t.Context(), b)
	if _, ok := errors.AsType[*exporter.RefusedError](err); !ok || !strings.Contains(err.Error(), "117 INCORRECT_DATA") {
		t.Errorf("got %v, want a refusal with code 117", err)
	}
	if strings.Contains(err.Error(), "1234567") {
		t.Errorf("the error holds a value: %v", err)
	}
}

// TestDroppedColumn pauses at a column that was filled until now, and lets a
// person go on without it.
func TestDroppedColumn(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	s := open(t, Config{DSN: newServer.DSN(), Table: table, CreateTable: true})
	deliver(t, s, sinktest.Batch(1, 2, 5))
	exec(t, conn, "ALTER TABLE `"+table+"` DROP COLUMN task_id")
	err := s.Deliver(t.Context(), sinktest.Batch(2, 2, 5))
	for range 2 { // the server's own words, or ours after another look
		if err != nil && special(err) {
			break
		}
		err = s.Deliver(t.Context(), sinktest.Batch(2, 2, 5))
	}
	wantPause(t, err, "task_id")
	if err := s.Deliver(t.Context(), sinktest.Batch(2, 2, 5)); err != nil {
		wantPause(t, err, "task_id")
		deliver(t, s, sinktest.Batch(2, 2, 5))
	}
	if n := number(t, conn, "SELECT count() FROM `"+table+"`"); n != 20 {
		t.Errorf("%d rows, want 20", n)
	}
	exec(t, conn, "DROP TABLE `"+table+"` SYNC")
	exec(t, conn, "CREATE TABLE `"+table+"` (run_id String, seq Int64) ENGINE = MergeTree ORDER BY run_id")
	err = s.Deliver(t.Context(), sinktest.Batch(3, 2, 5))
	wantPause(t, err, "event_id")
}

// TestTooManyParts on both servers: overload, never a refusal, and everything
// is in once the limit is gone.
func TestTooManyParts(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "new")
	exec(t, conn, strings.TrimSpace(DDL(table, DDLOptions{}))+
		", parts_to_throw_insert = 2, parts_to_delay_insert = 1000, max_delay_to_insert = 0")
	exec(t, conn, "SYSTEM STOP MERGES `"+table+"`")
	overloaded(t, open(t, Config{DSN: newServer.DSN(), Table: table}))

	conn, table = connect(t, oldServer.DSN()), tableOf(t, "old")
	exec(t, conn, fmt.Sprintf(eventTable, table, "MergeTree ORDER BY run_id SETTINGS parts_to_throw_insert = 2, parts_to_delay_insert = 2"))
	exec(t, conn, "SYSTEM STOP MERGES "+table)
	overloaded(t, open(t, Config{DSN: oldServer.DSN(), Table: table}))
}

func overloaded(t *testing.T, s *Sink) {
	t.Helper()
	for i := range 10 {
		b := sinktest.Batch(uint64(i+1), 1, 3)
		b.Number = int64(i + 1)
		err := s.Deliver(t.Context(), b)
		if err == nil {
			continue
		}
		later, ok := errors.AsType[*exporter.RetryAfterError](err)
		if !ok || !later.Overloaded || later.After < overloadDelay || !strings.Contains(err.Error(), "252 TOO_MANY_PARTS") {
			t.Errorf("got %v, want an overload", err)
		}
		return
	}
	t.Error("ten parts were accepted")
}

// TestManyMonths has events of more months than the server's limit for one
// insert, which it would report with the code of an overload.
func TestManyMonths(t *testing.T) {
	conn, table := connect(t, newServer.DSN()), tableOf(t, "events")
	exec(t, conn, "CREATE TABLE `"+table+"` (run_id String, seq Int64, event_id Int64, occurred_at DateTime) ENGINE = MergeTree "+
		"PARTITION BY toYYYYMM(occurred_at) ORDER BY run_id SETTINGS non_replicated_deduplication_window = 1000")
	s, b := open(t, Config{DSN: newServer.DSN(), Table: table}), sinktest.Batch(1, 1, 101)
	for i := range b.Events {
		b.Events[i].OccurredAt = b.Events[i].OccurredAt.AddDate(0, -i, 0)
	}
	deliver(t, s, b)
	deliver(t, s, b)
	if n := number(t, conn, "SELECT count() FROM `"+table+"`"); n != 101 {
		t.Errorf("%d rows, want 101", n)
	}
}

func TestAccounts(t *testing.T) {
	b := sinktest.Batch(1, 1, 1)
	conn := connect(t, oldServer.DSN())
	table := tableOf(t, "events")
	ownTable(t, conn, table)
	dsn := func(account string) string { return "clickhouse://" + account + "@" + oldServer.Address() + "/default" }
	deliver(t, open(t, Config{DSN: dsn(chserver.User + ":" + chserver.Password), Table: table}), b)
	for _, account := range []string{chserver.User + ":s3cret-guess", "nobody:s3cret-guess"} {
		err := open(t, Config{DSN: dsn(account), Table: table}).Deliver(t.Context(), b)
		wantPause(t, err, "correct the account in …_CLICKHOUSE_DSN")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
	for _, c := range []struct{ dsn, table, want string }{
		{oldServer.DSN(), "nowhere", "code 60: "},
		{newServer.DSN(), "nowhere", "code 60: "},
		{newServer.DSN(), "nowhere.events", "code 81: "},
		{"http://" + newServer.Address() + "/nowhere", "events", "code 81: "},
		{newServer.DSN() + "?no_such_setting=1", "nowhere", "code 115: "},
	} {
		wantPause(t, open(t, Config{DSN: c.dsn, Table: c.table}).Deliver(t.Context(), b), c.want)
	}
}
