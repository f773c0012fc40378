package docket

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// The reads of a start and of a backlog walk indexes, and only as far as their
// windows reach, also where the planner knows the tables well.
func TestPlansAreBounded(t *testing.T) {
	dsn := pgtest.Database(t)
	pool := pgtest.Pool(t, dsn)
	if err := docketsim.Install(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	const rows = 110_000
	conn := pgtest.Connect(t, dsn)
	pgtest.Exec(t, conn, "SET session_replication_role = replica") // the foreign key holds, and looking it up takes long
	pgtest.Exec(t, conn, `INSERT INTO docket_runs (run_id, tenant_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
		SELECT 'run-' || n, 't', 'chain', 'h', 'running', '\x83', gen_random_uuid(), now(), now(), now(), now() FROM generate_series(0, 4999) n`)
	pgtest.Exec(t, conn, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT 'run-' || n % 5000, n, CASE WHEN n % 4 = 0 THEN 'checkpoint_committed' ELSE 'node_completed' END, 0, '\x83', '\x83', now(), now() - interval '1 day' + n * interval '10 ms'
		FROM generate_series(1, $1::int) n`, rows)
	pgtest.Exec(t, pool, "VACUUM ANALYZE docket_runs, docket_events")
	table, err := findTable(t.Context(), pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	parse := func(list string) Filter {
		f, err := ParseFilter(list)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	filters := map[string]Filters{
		"no filter": {}, "type": {Types: parse("node_*")}, "type and tenant": {Types: parse("node_*"), Tenants: parse("!other")}, "nothing kept": {Graphs: parse("other")},
	}
	positions := map[string]exporter.Position{
		"caught up": {High: rows}, "near": {High: rows - 500}, "far": {High: 20_000}, "beyond the window": {},
		"open ranges": {High: rows, Holes: exporter.Ranges{{Lo: 7, Hi: 7}, {Lo: 100, Hi: 900}, {Lo: 50_000, Hi: 50_000}}},
	}
	statements := map[string]statement{"earliest": table.earliestStatement(nil)}
	place := func(name, text string) {
		p, err := ParsePlace(text)
		if err != nil {
			t.Fatal(err)
		}
		statements[name] = table.recentStatement(p, nil, nil)
	}
	place("latest", "latest")
	place("an id", "id:20000")
	place("a run", "run:r1")
	place("an event of a run", "run:r1/2")
	for name, ago := range map[string]time.Duration{"an old time": 48 * time.Hour, "a time": 24*time.Hour - 10*time.Minute, "a time to come": -time.Hour} {
		place(name, time.Now().Add(-ago).Format(time.RFC3339))
	}
	for filter, f := range filters {
		for position, p := range positions {
			statements["backlog, "+position+", "+filter] = table.backlogStatement(Rest{After: p, Filters: f}, nil, nil)
		}
		statements["backlog, up to an id, "+filter] = table.backlogStatement(Rest{Until: 15_000, Filters: f}, nil, nil)
	}
	for name, st := range statements {
		t.Run(name, func(t *testing.T) {
			limit := countedRows + 1
			if name == "an old time" {
				limit = rows // every index entry since then is looked at, once in a consumer's life
			}
			verifyPlan(t, explain(t, pool, st), limit)
		})
	}
}

var actualRows = regexp.MustCompile(`actual rows=(\d+)`)

// verifyPlan looks for a scan of a whole table and for steps that read more
// rows than limit. (Reading the sequence's only row is a sequential scan, too.)
func verifyPlan(t *testing.T, plan string, limit int) {
	t.Helper()
	for line := range strings.Lines(plan) {
		for _, whole := range []string{"Seq Scan on docket_events ", "Seq Scan on docket_runs ", "Bitmap"} {
			if strings.Contains(line, whole) {
				t.Fatalf("%s in\n%s", whole, plan)
			}
		}
		if m := actualRows.FindStringSubmatch(line); m != nil {
			if n, _ := strconv.Atoi(m[1]); n > limit {
				t.Fatalf("%d rows in %q of\n%s", n, line, plan)
			}
		}
	}
}

// explain returns the plan of a statement as read executes it, with the rows
// that each of its steps gave.
func explain(t *testing.T, pool *pgxpool.Pool, st statement) string {
	t.Helper()
	var plan strings.Builder
	st.sql = "EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) " + st.sql
	st.read = func(rr *pgconn.ResultReader) error {
		for rr.NextRow() {
			plan.Write(rr.Values()[0])
			plan.WriteByte('\n')
		}
		_, err := rr.Close()
		return err
	}
	if err := (&table{}).read(t.Context(), pool, st); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
