package docket

import (
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/retention"
)

// The looks at what retention has left walk indexes, and only a little of them.
func TestLossPlansAreBounded(t *testing.T) {
	dsn := pgtest.Database(t)
	pool := pgtest.Pool(t, dsn)
	if err := docketsim.Install(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, dsn)
	pgtest.Exec(t, conn, "SET session_replication_role = replica")
	pgtest.Exec(t, conn, `INSERT INTO docket_runs (run_id, graph_id, graph_hash, status, state, inserted_at, started_at, updated_at, finished_at)
		SELECT 'run-' || n, 'chain', 'h', 'done', '\x83', s, s, s, s FROM generate_series(1, 4000) n, LATERAL (SELECT now() - interval '10 days' + n * interval '216 s' AS s) x`)
	pgtest.Exec(t, conn, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT run_id, q, 'node_completed', 0, '\x83', '\x83', started_at, started_at FROM docket_runs, generate_series(1, 8) q ORDER BY started_at, q`)
	pgtest.Exec(t, conn, `DELETE FROM docket_events WHERE id BETWEEN 12000 AND 24000 AND id % 7 > 2`)
	pgtest.Exec(t, pool, "VACUUM ANALYZE docket_runs, docket_events")
	table, err := findTable(t.Context(), pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k := look{horizon: now.Add(-24 * time.Hour), since: now.Add(-5 * 24 * time.Hour), wide: true}
	var gaps exporter.Ranges
	for id := int64(12_003); len(gaps) < lookedRanges; id += 7 {
		gaps = gaps.Append(exporter.Range{Lo: id, Hi: id + 3})
	}
	const most = lookedRanges*wideRows + 1
	for name, st := range map[string]statement{
		"sight": table.sightStatement(7*24*time.Hour, &retention.Sight{}), "broken runs": table.brokenRunsStatement(&k, gaps),
		"vanished runs": table.vanishedRunsStatement(&k), "the lowest gap": table.brokenRunsStatement(&k, exporter.Ranges{{Lo: -5, Hi: -2}}),
	} {
		t.Run(name, func(t *testing.T) { verifyPlan(t, explain(t, pool, st), most) })
	}
}
