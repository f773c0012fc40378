package docket_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

// wantChanged checks that the next poll says that the source is another one.
func (d *database) wantChanged(want string) {
	d.t.Helper()
	err := d.wantPollError(want)
	var pause *exporter.PauseError
	if !errors.As(err, &pause) || pause.Reason != exporter.PausedSourceChanged {
		d.t.Fatalf("%v is not a changed source", err)
	}
}

func TestExplicitIDStopsTheConsumer(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.insert("r", 1)
	d.drain()
	s.do(`INSERT INTO docket_events SELECT 1000000, 'r', 2, type, step, NULL, NULL, NULL, payload, metadata, now(), now() FROM docket_events`)
	d.wantChanged("explicit id")
	d.wantAt("1")
	s.do(`SELECT setval('docket_events_id_seq', 1000000)`)
	d.drain()
	d.wantGot("r/1", "r/2")
}

func TestAnotherServer(t *testing.T) {
	d := open(t, docket.Options{System: 42})
	d.wantChanged("before it was 42")
	d.wantAt("0")
}

func TestDeletedNewestRunIsNoChange(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("old", "new")
	s.insert("old", 1)
	for seq := range 40 {
		s.insert("new", seq+1)
	}
	d.drain()
	s.do(`DELETE FROM docket_runs WHERE run_id = 'new'`)
	s.insert("old", 2)
	d.drain()
	if d.got[len(d.got)-1] != "old/2" {
		t.Fatalf("position %s", d.at)
	}
}

func TestSequenceBelowThePosition(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	for seq := range 100 {
		s.insert("r", seq+1)
	}
	d.drain()
	s.do(`SELECT setval('docket_events_id_seq', 86)`)
	d.wantChanged("is at 86, but the position is 100")
}

func TestReplacedSequenceOrTable(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.do("BEGIN")
	s.insert("r", 1) // an open id of the old sequence
	other := d.session()
	other.runs("r2")
	other.insert("r2", 1)
	d.poll()
	d.wantAt("2-{[1,1]}")
	s.do("COMMIT")
	other.do(`ALTER TABLE docket_events ALTER id DROP DEFAULT`)
	other.do(`DROP SEQUENCE docket_events_id_seq`)
	other.do(`CREATE SEQUENCE docket_events_id_seq START 3 OWNED BY docket_events.id`)
	other.do(`ALTER TABLE docket_events ALTER id SET DEFAULT nextval('docket_events_id_seq')`)
	d.wantChanged("sequence")
	d.wantAt("2-{[1,1]}")
}

func TestRecreatedTable(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.insert("r", 1)
	d.drain()
	s.do(`ALTER TABLE docket_events RENAME TO kept`)
	if err := d.wantPollError("docket_events"); !errors.Is(err, docket.ErrNoTable) {
		// the first poll still meets the missing name, the next one resolves it
		if _, err = d.source.Poll(t.Context(), d.at); !errors.Is(err, docket.ErrNoTable) {
			t.Fatalf("%v", err)
		}
	}
	s.do(`CREATE TABLE docket_events (LIKE kept INCLUDING ALL)`)
	s.do(`ALTER SEQUENCE docket_events_id_seq OWNED BY docket_events.id`)
	d.wantChanged("dropped and made again")
}

func TestTableThatDoesNotExistYet(t *testing.T) {
	dsn := pgtest.Database(t)
	source := docket.New(pgtest.PlainPool(t, dsn), docket.Options{Schema: "acme"})
	if _, err := source.Poll(t.Context(), exporter.Position{}); !errors.Is(err, docket.ErrNoTable) {
		t.Fatalf("%v, want ErrNoTable", err)
	}
	d := openOn(t, dsn, docket.Options{Schema: "acme"})
	d.source = source
	d.drain()
	d.wantAt("0")
}

func TestMissingColumnAndWrongType(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.do(`ALTER TABLE docket_events DROP COLUMN task_id`)
	s.do(`ALTER TABLE docket_events ALTER step TYPE bigint`)
	err := d.wantPollError("step is bigint, want integer, task_id is missing")
	var pause *exporter.PauseError
	if !errors.As(err, &pause) || pause.Reason != exporter.PausedUnknownShape {
		t.Fatalf("%v", err)
	}
}

// A standby shows no holders. Nothing read there may count as evidence.
func TestStandbyIsNoEvidence(t *testing.T) {
	primary := pgtest.Cluster(t, pgserver.Options{})
	d := openOn(t, primary.URL("postgres"), docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	a.do("BEGIN")
	a.insert("r1", 1)
	b.insert("r2", 1)
	d.poll()
	d.wantAt("2-{[1,1]}")
	standby := pgtest.Standby(t, primary, pgserver.Options{})
	onStandby := docket.New(pgtest.PlainPool(t, standby.URL("postgres")), docket.Options{})
	if _, err := onStandby.Poll(t.Context(), d.at); err == nil {
		t.Fatal("a standby was read")
	}
	if _, err := onStandby.Replay(t.Context(), exporter.Position{}, d.at); err == nil {
		t.Fatal("a batch was read again from a standby")
	}
	a.do("COMMIT")
	d.drain()
	d.wantGot("r2/1", "r1/1")
}

// prepared has event 1 in a prepared transaction and event 2 delivered. It
// returns the session of event 2.
func (d *database) prepared() *session {
	d.t.Helper()
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	a.do("BEGIN")
	a.insert("r1", 1)
	a.do("PREPARE TRANSACTION 'held-back'")
	b.insert("r2", 1)
	d.poll()
	d.wantAt("2-{[1,1]}")
	return b
}

// wantPreparedStill checks that the server's absence has not cost event 1.
func (d *database) wantPreparedStill() {
	d.t.Helper()
	d.pollWhenBack()
	d.poll()
	d.wantAt("2-{[1,1]}")
	d.session().do("COMMIT PREPARED 'held-back'")
	d.drain()
	d.wantGot("r2/1", "r1/1")
}

// pollWhenBack polls once the pool has found its connections cut.
func (d *database) pollWhenBack() {
	d.t.Helper()
	pgtest.Eventually(d.t, 20*time.Second, func() error {
		b, err := d.source.Poll(d.t.Context(), d.at)
		if err == nil {
			d.take(b)
		}
		return err
	})
}

// A restart renames the holder: 5/16 becomes -1/749 and looks gone.
func TestPreparedTransactionSurvivesARestart(t *testing.T) {
	cluster := pgtest.Cluster(t, pgserver.Options{Durable: true})
	d := openOn(t, cluster.URL("postgres"), docket.Options{})
	d.prepared()
	if err := cluster.Restart(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	d.wantPreparedStill()
}

// The crash of one backend makes the server build its shared memory anew,
// without a new start time: the prepared holder gets another name.
func TestPreparedTransactionSurvivesTheCrashOfABackend(t *testing.T) {
	cluster := pgtest.Cluster(t, pgserver.Options{Durable: true})
	d := openOn(t, cluster.URL("postgres"), docket.Options{})
	b, witness := d.prepared(), d.session()
	if err := syscall.Kill(int(pgtest.Value[int32](t, b.Conn, "SELECT pg_backend_pid()")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pgtest.Until(t, 20*time.Second, "the server to end all sessions", func() bool { return witness.Ping(t.Context()) != nil })
	pgtest.Eventually(t, 20*time.Second, func() error {
		conn, err := pgx.Connect(t.Context(), d.dsn)
		if err == nil {
			err = conn.Close(t.Context())
		}
		return err
	})
	d.wantPreparedStill()
}

// An aborted transaction does not wait for the disk: after a crash of the
// server its ids are handed out again. They must not count as done.
func TestIDsOfAnAbortedTransactionMayComeAgain(t *testing.T) {
	cluster := pgtest.Cluster(t, pgserver.Options{Durable: true, Settings: map[string]string{"wal_writer_delay": "10s"}})
	d := openOn(t, cluster.URL("postgres"), docket.Options{})
	s := d.session()
	s.runs("r1", "r2")
	s.insert("r1", 1)
	d.drain()
	s.do("BEGIN")
	s.do("SELECT nextval('docket_events_id_seq') FROM generate_series(1, 100)") // beyond what the sequence has logged ahead
	s.do("ROLLBACK")
	for range 20 {
		d.poll()
	}
	if err := cluster.Restart(t.Context(), "immediate"); err != nil {
		t.Fatal(err)
	}
	after := d.session()
	var rows []int64
	for seq := range 40 {
		rows = append(rows, after.insert("r2", seq+1))
	}
	if rows[0] > 100 {
		t.Fatalf("the server did not hand ids out again: %d", rows[0])
	}
	d.pollWhenBack()
	d.drain()
	d.wantOrdered(map[string]int{"r1": 1, "r2": 40})
}

// What a role or a database has set must not change what is read.
func TestSessionSettingsDoNotMatter(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.do(`CREATE SCHEMA evil`)
	s.do(`CREATE VIEW evil.pg_locks AS SELECT * FROM pg_catalog.pg_locks WHERE false`)
	for _, set := range []string{
		"search_path = evil, pg_catalog, public", "bytea_output = escape", "DateStyle = 'German, DMY'", "client_encoding = LATIN1",
		"default_transaction_isolation = serializable", "enable_indexscan = off", "TimeZone = 'Asia/Kolkata'",
	} {
		s.do(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET ` + strings.ReplaceAll(set, "'", "''") + `', current_database()); END $$`)
	}
	d.pool = pgtest.PlainPool(t, d.dsn)
	d.source = docket.New(d.pool, docket.Options{}).Impatient()
	s.runs("ré", "r2")
	s.do("BEGIN")
	s.insert("ré", 1)
	other := &session{t, pgtest.Connect(t, d.dsn)}
	other.do("SET search_path = public; SET client_encoding = UTF8")
	other.insert("r2", 1)
	d.poll()
	d.wantAt("2-{[1,1]}")
	s.do("COMMIT")
	d.drain()
	d.wantGot("r2/1", "ré/1")
}

// A policy that hides rows would make them look dead.
func TestHiddenRowsAreAnError(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.insert("r", 1)
	s.do(`CREATE ROLE hidden_reader`)
	t.Cleanup(func() {
		for _, sql := range []string{`RESET ROLE`, `DROP OWNED BY hidden_reader CASCADE`, `DROP ROLE hidden_reader`} {
			if _, err := s.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	s.do(`GRANT USAGE ON SCHEMA public TO hidden_reader`)
	s.do(`GRANT SELECT ON docket_events, docket_runs, docket_events_id_seq TO hidden_reader`)
	s.do(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET role = hidden_reader', current_database()); END $$`)
	d.pool = pgtest.PlainPool(t, d.dsn)
	d.source = docket.New(d.pool, docket.Options{})
	s.do(`ALTER TABLE docket_events ENABLE ROW LEVEL SECURITY`)
	d.wantPollError("row-level security")
	d.wantAt("0")
}

// What the check verifies at the start is looked at again.
func TestCacheSetWhileRunning(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r")
	s.insert("r", 1)
	d.drain()
	s.do(`ALTER SEQUENCE docket_events_id_seq CACHE 20`)
	s.insert("r", 2)
	err := d.wantPollError("CACHE 1")
	var pause *exporter.PauseError
	if !errors.As(err, &pause) {
		t.Fatalf("%v does not pause", err)
	}
	d.wantAt("1")
}

// A database in SQL_ASCII keeps whatever bytes it was given.
func TestTextsThatAreNotUTF8(t *testing.T) {
	admin := pgtest.Database(t)
	conn := pgtest.Connect(t, admin)
	name := pgtest.Value[string](t, conn, `SELECT current_database() || '_ascii'`)
	pgtest.Exec(t, conn, `CREATE DATABASE "`+name+`" ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), `DROP DATABASE "`+name+`" WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	d := openOn(t, strings.Replace(admin, strings.TrimSuffix(name, "_ascii"), name, 1), docket.Options{})
	s := d.session()
	s.do(`SET client_encoding = SQL_ASCII`)
	s.runs("r\xff")
	s.insert("r\xff", 1)
	b := d.poll()
	d.wantGot("r\xff/1")
	line := b.Events[0].AppendJSON(nil)
	key := exporter.Identity{RunID: "r\xff", Seq: 1, EventID: 1}.Key()
	if !bytes.Contains(line, []byte(`"run_id":"r�"`)) || !bytes.Contains(line, []byte(key)) {
		t.Errorf("the line is %s, want U+FFFD and the key %s of the bytes", line, key)
	}
}
