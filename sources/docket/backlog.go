package docket

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
)

// Windows of a backlog read. An exact minimum of inserted_at among the rows
// above an id has no bounded query, because ids, times and commits come in
// three different orders.
const (
	countedRows = 100_000 // up to here Events is exact and Oldest looks at every row
	nearRows    = 10_000  // behind that, rows in id order above the position
	agedRows    = 100_000 // and the oldest of the whole table
)

// backlogTimeout bounds the read on the server.
const backlogTimeout = 5 * time.Second

// Rest is what a consumer has before it.
type Rest struct {
	After   exporter.Position
	Until   int64 // the last id it wants; 0 for all to come
	Filters Filters
}

// until is Until as a bound.
func (r Rest) until() int64 {
	if r.Until == 0 {
		return math.MaxInt64
	}
	return r.Until
}

// Backlog is what a consumer has not been given yet, as one snapshot shows it.
type Backlog struct {
	Now  time.Time // Docket's database clock at the read
	Head int64     // the highest id its sequence has handed out

	// Events counts the undelivered visible rows that the filter keeps. Above
	// 100,000 rows it is the distance of the ids instead, which is never less,
	// and Exact is false.
	Events int64
	Exact  bool

	// Oldest is the least inserted_at among those rows; zero when there are
	// none. It is exact while Events is. Behind that it is the least over the
	// first 10,000 rows above the position, the rows in its open ranges, and the 100,000
	// oldest rows of the table: exact near the retention's horizon, and what it
	// misses is younger than the last of those.
	Oldest time.Time
}

// ReadBacklog reads how far a consumer is behind, with a bounded number of
// index entries. It fails on a standby, whose rows may be behind, and where the
// sequence is below the position: the backlog is then unknown.
func ReadBacklog(ctx context.Context, pool *pgxpool.Pool, schema string, rest Rest) (Backlog, error) {
	t := &table{schema: schema, events: quote(schema) + ".docket_events", runs: quote(schema) + ".docket_runs"}
	var b Backlog
	var recovery bool
	x, err := begin(ctx, pool, backlogTimeout)
	if err != nil {
		return Backlog{}, err
	}
	defer x.end(ctx)
	if err := x.run(ctx, indexesOnly, t.sequenceStatement()); err != nil {
		return Backlog{}, fmt.Errorf("find the id sequence of %s: %w", t.events, err)
	}
	if t.sequence == "" {
		return Backlog{}, fmt.Errorf("read the backlog of %s: its id owns no sequence", t.events)
	}
	if err := x.run(ctx, t.backlogStatement(rest, &b, &recovery)); err != nil {
		return Backlog{}, fmt.Errorf("read the backlog of %s: %w", t.events, err)
	}
	if recovery {
		return Backlog{}, errRecovery
	}
	if b.Head < rest.After.High {
		return Backlog{}, fmt.Errorf("read the backlog of %s: the id sequence %s is at %d, but the position is %d", t.events, t.sequence, b.Head, rest.After.High)
	}
	return b, nil
}

// indexesOnly makes the transaction's plans walk indexes, where statistics
// might call reading and sorting a whole table cheaper than its bounded part.
var indexesOnly = statement{sql: `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`}

// sequenceStatement resolves t.sequence, leaving it empty when there is none.
func (t *table) sequenceStatement() statement {
	return statement{
		sql: `SELECT pg_get_serial_sequence($1, 'id')`, values: [][]byte{[]byte(t.events)}, types: []uint32{pgtype.TextOID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				t.sequence = string(rr.Values()[0])
			}
			_, err := rr.Close()
			return err
		},
	}
}

func (t *table) backlogStatement(rest Rest, into *Backlog, recovery *bool) statement {
	los, his := rangeArrays(rest.After.Holes)
	st := statement{
		values: [][]byte{strconv.AppendInt(nil, rest.After.High, 10), los, his, strconv.AppendInt(nil, rest.until(), 10)},
		types:  []uint32{pgtype.Int8OID, pgtype.Int8ArrayOID, pgtype.Int8ArrayOID, pgtype.Int8OID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				*recovery = readBacklog(rr.Values(), rest, into)
			}
			_, err := rr.Close()
			return err
		},
	}
	condition, patterns := rest.Filters.condition(5)
	for _, p := range patterns {
		st.values, st.types = append(st.values, []byte(p)), append(st.types, pgtype.TextArrayOID)
	}
	st.sql = t.backlogSQL(condition, !rest.Filters.Tenants.all() || !rest.Filters.Graphs.all())
	return st
}

// backlogSQL takes $1 High, $2 and $3 the ends of the open ranges, $4 the last
// id, $5… the filter's patterns. A LATERAL with a LIMIT is always looked up row by row: a
// join could choose to read all runs.
func (t *table) backlogSQL(condition string, ofRun bool) string {
	typeOf, runOf := "", ""
	if condition == "" {
		condition = "true"
	} else {
		typeOf = ` CROSS JOIN LATERAL (SELECT x.type, x.run_id FROM ` + t.events + ` x WHERE x.id = w.id LIMIT 1) e`
	}
	if ofRun {
		runOf = ` LEFT JOIN LATERAL (SELECT x.tenant_id, x.graph_id FROM ` + t.runs + ` x WHERE x.run_id = e.run_id LIMIT 1) r ON true`
	}
	measured := `SELECT count(*) AS rows, count(*) FILTER (WHERE keep) AS events, min(inserted_at) FILTER (WHERE keep) AS oldest
		FROM (SELECT e.inserted_at, ` + condition + ` AS keep FROM `
	return fmt.Sprintf(`
WITH beyond AS MATERIALIZED (
	SELECT id FROM %[1]s WHERE id > $1 AND id <= $4 ORDER BY id OFFSET %[3]d LIMIT 1
), above AS MATERIALIZED (
	`+measured+`(
		SELECT x.inserted_at, x.type, x.run_id FROM %[1]s x WHERE x.id > $1 AND x.id <= $4 ORDER BY x.id
		LIMIT CASE WHEN EXISTS (SELECT FROM beyond) THEN %[4]d ELSE %[3]d END) e%[6]s) k
), open AS MATERIALIZED (
	`+measured+`(
		SELECT x.* FROM unnest($2, $3) AS hole(lo, hi) CROSS JOIN LATERAL (
			SELECT x.inserted_at, x.type, x.run_id FROM %[1]s x WHERE x.id BETWEEN hole.lo AND hole.hi ORDER BY x.id LIMIT %[3]d + 1) x
		LIMIT %[3]d + 1) e%[6]s) k
), aged AS (
	SELECT w.inserted_at FROM (SELECT inserted_at, id FROM %[1]s ORDER BY inserted_at, id LIMIT %[5]d) w%[7]s%[6]s
	WHERE w.id > $1 AND w.id <= $4 AND EXISTS (SELECT FROM beyond) AND %[8]s
	ORDER BY w.inserted_at, w.id LIMIT 1
)
SELECT pg_is_in_recovery(), clock_timestamp(),
       CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END,
       EXISTS (SELECT FROM beyond) OR open.rows > %[3]d, above.events, open.rows, open.events,
       least(above.oldest, open.oldest, (SELECT inserted_at FROM aged))
FROM %[2]s q CROSS JOIN above CROSS JOIN open`,
		t.events, t.sequence, countedRows, nearRows, agedRows, runOf, typeOf, condition)
}

func readBacklog(v [][]byte, rest Rest, into *Backlog) (recovery bool) {
	into.Now, into.Head = timeAt(v[1]), int8At(v[2])
	into.Exact = !boolAt(v[3])
	into.Events = int8At(v[4]) + int8At(v[6])
	if !into.Exact {
		into.Events = max(min(into.Head, rest.until())-rest.After.High, 0) + int8At(v[5])
	}
	if v[7] != nil {
		into.Oldest = timeAt(v[7])
	}
	return boolAt(v[0])
}
