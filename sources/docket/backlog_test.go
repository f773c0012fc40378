package docket_test

import (
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

func (d *database) backlog(at string, f docket.Filters) docket.Backlog {
	d.t.Helper()
	p, err := exporter.ParsePosition(at)
	if err != nil {
		d.t.Fatal(err)
	}
	b, err := docket.ReadBacklog(d.t.Context(), d.pool, "public", docket.Rest{After: p, Filters: f})
	if err != nil {
		d.t.Fatalf("backlog at %s: %v", at, err)
	}
	return b
}

// wantBacklog compares the counts, and the age of the oldest event in minutes
// (-1 for none).
func (d *database) wantBacklog(at string, f docket.Filters, events int64, exact bool, minutes int) {
	d.t.Helper()
	b := d.backlog(at, f)
	age := -1
	if !b.Oldest.IsZero() {
		age = int(b.Now.Sub(b.Oldest).Round(time.Minute) / time.Minute)
	}
	if b.Events != events || b.Exact != exact || age != minutes {
		d.t.Errorf("backlog at %s: %d events, exact %v, oldest %d min; want %d, %v, %d", at, b.Events, b.Exact, age, events, exact, minutes)
	}
}

func filterTypes(t *testing.T, list string) docket.Filters {
	t.Helper()
	f, err := docket.ParseFilter(list)
	if err != nil {
		t.Fatal(err)
	}
	return docket.Filters{Types: f}
}

func TestBacklog(t *testing.T) {
	d := open(t, docket.Options{})
	none := docket.Filters{}
	d.wantBacklog("0", none, 0, true, -1)
	if b := d.backlog("0", none); b.Head != 0 || time.Since(b.Now).Abs() > time.Minute {
		t.Errorf("backlog %+v of an empty table", b)
	}
	s := d.session()
	s.runs("r1")
	s.do(insertRun, "r2", "acme", "tree")
	now := time.Now()
	s.insertAt("r1", 1, now.Add(-5*time.Minute))
	s.insertAt("r1", 2, now.Add(-9*time.Minute)) // older than the one before it
	s.insertAt("r2", 1, now.Add(-7*time.Minute))
	s.do(`UPDATE docket_events SET type = 'run_failed' WHERE id = 3`)
	s.insertAt("r2", 2, now.Add(time.Hour)) // a clock that is ahead
	d.wantBacklog("0", none, 4, true, 9)
	d.wantBacklog("2", none, 2, true, 7)
	d.wantBacklog("4", none, 0, true, -1)
	d.wantBacklog("3", none, 1, true, -60)
	d.wantBacklog("4-{[1,2]}", none, 2, true, 9)
	d.wantBacklog("3-{[1,1]}", none, 2, true, 5)
	d.wantBacklog("0", filterTypes(t, "run_failed"), 1, true, 7)
	d.wantBacklog("3", filterTypes(t, "run_failed"), 0, true, -1)
	d.wantBacklog("4-{[1,3]}", filterTypes(t, "run_failed"), 1, true, 7)
	acme, err := docket.ParseFilter("acme")
	if err != nil {
		t.Fatal(err)
	}
	d.wantBacklog("0", docket.Filters{Tenants: acme}, 2, true, 7)
	notTree, err := docket.ParseFilter("!tree")
	if err != nil {
		t.Fatal(err)
	}
	d.wantBacklog("3-{[1,2]}", docket.Filters{Graphs: notTree}, 2, true, 9)
}

// What ends at an id is not behind with what comes after.
func TestBacklogUpToAnID(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	now := time.Now()
	for i := range 5 {
		s.insertAt("r1", i+1, now.Add(-time.Duration(i)*time.Minute)) // the later, the older
	}
	for until, want := range map[int64]int64{0: 4, 1: 0, 3: 2, 5: 4, 9: 4} {
		b, err := docket.ReadBacklog(t.Context(), d.pool, "public", docket.Rest{After: exporter.Position{High: 1}, Until: until})
		if err != nil || b.Events != want || !b.Exact {
			t.Errorf("until %d: %+v, %v; want %d events", until, b, err, want)
		}
		if until == 3 && b.Now.Sub(b.Oldest).Round(time.Minute) != 2*time.Minute {
			t.Errorf("until 3 the oldest is %v old", b.Now.Sub(b.Oldest))
		}
	}
}

// What is in flight is not yet undelivered: it has no row that anybody sees.
func TestBacklogDoesNotCountInvisibleRows(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	a.do("BEGIN")
	a.insert("r1", 1)
	b.insert("r2", 1)
	d.wantBacklog("2-{[1,1]}", docket.Filters{}, 0, true, -1)
	a.do("COMMIT")
	d.wantBacklog("2-{[1,1]}", docket.Filters{}, 1, true, 0)
	if head := d.backlog("2", docket.Filters{}).Head; head != 2 {
		t.Errorf("head %d, want 2", head)
	}
}

// Behind 100,000 rows only windows are looked at, and the old row that
// retention reaches first must still be found.
func TestBacklogBehindTheCountedRows(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	const rows = 100_050
	fill(t, d.dsn, rows)
	at := func(id int, minutes int, kind string) {
		s.do(`UPDATE docket_events SET inserted_at = now() - $1 * interval '1 minute', type = $3 WHERE id = $2`, minutes, id, kind)
	}
	at(60_000, 30, "run_failed")
	d.wantBacklog("0", docket.Filters{}, rows, false, 30)
	d.wantBacklog("50", docket.Filters{}, rows-50, true, 30)
	d.wantBacklog("100000-{[59000,61000]}", docket.Filters{}, 50+2001, true, 30)
	d.wantBacklog("0", filterTypes(t, "run_failed"), rows, false, 30)
	d.wantBacklog("0", filterTypes(t, "run_failed,!run_*"), rows, false, -1)
	d.wantBacklog("50", filterTypes(t, "run_failed,!run_*"), 0, true, -1)
	s.do("SELECT nextval('docket_events_id_seq') FROM generate_series(1, 7)")
	if b := d.backlog("10", docket.Filters{}); b.Events != rows+7-10 || b.Head != rows+7 {
		t.Errorf("backlog %+v, want the distance of ids", b)
	}
}

// fill adds events of one-event runs, inserted in the last minute.
func fill(t *testing.T, dsn string, rows int) {
	t.Helper()
	conn := pgtest.Connect(t, dsn)
	pgtest.Exec(t, conn, "SET session_replication_role = replica") // the foreign key holds, and looking it up takes long
	pgtest.Exec(t, conn, `INSERT INTO docket_runs (run_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
		SELECT 'run-' || n, 'chain', 'h', 'running', '\x83', gen_random_uuid(), now(), now(), now(), now() FROM generate_series(1, $1::int / 50) n`, rows)
	pgtest.Exec(t, conn, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT 'run-' || 1 + n % ($1::int / 50), n, 'node_completed', 0, '\x83', '\x83', now(), now() - n % 60 * interval '1 second'
		FROM generate_series(1, $1::int) n`, rows)
	pgtest.Exec(t, conn, "ANALYZE docket_runs, docket_events")
}

func TestBacklogIsUnknown(t *testing.T) {
	d := open(t, docket.Options{})
	for name, c := range map[string]struct {
		schema string
		at     exporter.Position
		want   string
	}{
		"position above the sequence": {"public", exporter.Position{High: 7}, "is at 0, but the position is 7"},
		"no table":                    {"other", exporter.Position{}, "other"},
	} {
		if _, err := docket.ReadBacklog(t.Context(), d.pool, c.schema, docket.Rest{After: c.at}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	d.session().do("ALTER SEQUENCE docket_events_id_seq OWNED BY NONE")
	if _, err := docket.ReadBacklog(t.Context(), d.pool, "public", docket.Rest{}); err == nil || !strings.Contains(err.Error(), "owns no sequence") {
		t.Errorf("without a sequence: %v", err)
	}
}

// What is wrong is said once, though the server's answer ends the batch as well.
func TestBacklogWithoutASchemaSaysItOnce(t *testing.T) {
	d := open(t, docket.Options{})
	_, err := docket.ReadBacklog(t.Context(), d.pool, "pulic", docket.Rest{})
	if err == nil || strings.Count(err.Error(), `schema "pulic" does not exist`) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestBacklogInASchemaWithAnOddName(t *testing.T) {
	d := open(t, docket.Options{})
	const schema = `Odd "name"`
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, d.dsn), schema); err != nil {
		t.Fatal(err)
	}
	if b, err := docket.ReadBacklog(t.Context(), d.pool, schema, docket.Rest{}); err != nil || !b.Exact {
		t.Errorf("backlog %+v, %v", b, err)
	}
	if p, err := docket.StartPosition(t.Context(), d.pool, schema, place(t, "latest")); err != nil || p.String() != "0" {
		t.Errorf("start at %s, %v", p, err)
	}
}

// A standby may lack rows, and does not show who holds the sequence.
func TestStandbyIsRefused(t *testing.T) {
	primary := pgtest.Cluster(t, pgserver.Options{})
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, primary.URL("postgres")), "public"); err != nil {
		t.Fatal(err)
	}
	dsn := pgtest.Standby(t, primary, pgserver.Options{}).URL("postgres")
	if _, err := docket.ReadBacklog(t.Context(), pgtest.PlainPool(t, dsn), "public", docket.Rest{}); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("backlog from a standby: %v", err)
	}
	wantFinding(t, check(t, dsn, "public"), exporter.LevelFail, "standby", "target_session_attrs=read-write")
}
