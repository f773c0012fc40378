package docket

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/retention"
)

// youngRuns is how many runs are looked at to see whether their first event is there.
const youngRuns = 20

// ReadSight reads what Docket's tables show of the pruner, with a bounded
// number of index entries. events is the told retention, 0 for none.
func ReadSight(ctx context.Context, pool *pgxpool.Pool, schema string, events time.Duration) (retention.Sight, error) {
	x, err := begin(ctx, pool, backlogTimeout)
	if err != nil {
		return retention.Sight{}, err
	}
	defer x.end(ctx)
	t := &table{events: quote(schema) + ".docket_events", runs: quote(schema) + ".docket_runs"}
	var s retention.Sight
	if err := x.run(ctx, indexesOnly, t.sightStatement(events, &s)); err != nil {
		return retention.Sight{}, fmt.Errorf("read the oldest event of %s: %w", t.events, err)
	}
	holders, err := PrunerHolders(ctx, x.conn, schema)
	s.Held = len(holders) > 0
	return s, err
}

// CheckRetention compares the retention that was told with the tables, because
// only Docket's configuration knows the real one. Its error says that the
// connection failed.
func CheckRetention(ctx context.Context, conn *pgx.Conn, schema string, told retention.Policy) ([]exporter.Finding, error) {
	t := &table{events: quote(schema) + ".docket_events", runs: quote(schema) + ".docket_runs"}
	var s retention.Sight
	st := t.sightStatement(told.Events, &s)
	rr := conn.PgConn().ExecParams(ctx, st.sql, st.values, st.types, nil, binaryResults)
	if err := st.read(rr); err != nil {
		return refused(conn, err, "read the oldest event of "+t.events)
	}
	holders, err := PrunerHolders(ctx, conn, schema)
	if err != nil {
		return refused(conn, err, "look for who holds the pruner off")
	}
	s.Held = len(holders) > 0
	verdict := retention.Judge(told, s)
	f := exporter.Finding{Level: exporter.LevelOK}
	if f.Text, f.Hint = verdict.Text(); verdict.Mismatch != retention.Agrees {
		f.Level = exporter.LevelWarn
	}
	return []exporter.Finding{f}, nil
}

// sightStatement looks at both ends of what the pruner leaves: the oldest rows,
// and the first events of runs that started just within the told retention.
func (t *table) sightStatement(told time.Duration, into *retention.Sight) statement {
	within := told - retention.Margin(told)
	return statement{
		sql: `
SELECT clock_timestamp(), oldest.inserted_at, (SELECT min(id) FROM ` + t.events + `), young.runs, young.gone,
       (SELECT updated_at FROM ` + t.runs + ` WHERE status IN ('done', 'failed', 'cancelled') ORDER BY updated_at, id LIMIT 1)
FROM (VALUES (1)) one
LEFT JOIN LATERAL (SELECT inserted_at FROM ` + t.events + ` WHERE inserted_at > '-infinity' ORDER BY inserted_at, id LIMIT 1) oldest ON true
CROSS JOIN LATERAL (
	SELECT count(*) AS runs, count(*) - count(e.seq) AS gone
	FROM (SELECT run_id FROM ` + t.runs + ` WHERE started_at >= statement_timestamp() - $1::int8 * interval '1 microsecond'
	      ORDER BY started_at, run_id LIMIT ` + strconv.Itoa(youngRuns) + `) r
	LEFT JOIN LATERAL (SELECT x.seq FROM ` + t.events + ` x WHERE x.run_id = r.run_id AND x.seq = 1 LIMIT 1) e ON true) young`,
		values: [][]byte{strconv.AppendInt(nil, within.Microseconds(), 10)}, types: []uint32{pgtype.Int8OID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				*into = retention.Sight{Now: timeAt(v[0]), Young: int(int8At(v[3])), Gone: int(int8At(v[4]))}
				if v[1] != nil {
					into.Oldest = finiteAt(v[1])
				}
				if v[2] != nil {
					into.LowestID = int8At(v[2])
				}
				if v[5] != nil {
					into.OldestRun = finiteAt(v[5])
				}
			}
			_, err := rr.Close()
			return err
		},
	}
}
