package docket

import (
	"math"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
)

// Columns of a page, in the order in which readRows reads them.
const pageColumns = `id, taken, keep, run_id, seq, type, step, node_id, channel_id, task_id,
	tenant_id, graph_id, graph_hash, occurred_at, inserted_at,
	CASE WHEN taken AND keep THEN payload END, CASE WHEN taken AND keep THEN metadata END`

// rowOverhead stands for all of a row but its payload, metadata, and run id
// (which its task id repeats) where bytes are counted.
const rowOverhead = 256

// queries are the texts of the statements on Docket's tables for one consumer.
// A page is read by one of two. page serves everything: the server cuts it.
// fast serves a position without holes and rows of moderate size at a third of
// the server's cost: the reader cuts it, and drops what comes after the cut.
type queries struct {
	fast       string // rows above the position; empty where the filter needs run columns
	page       string // rows within the open ranges, then above the position
	ranges     string // rows within ranges, without limits
	ids        string // ids within ranges
	runs       string // the run columns that fast leaves out
	idle       string // the time, and whether nothing was handed out above High, $1, by the sequence $2
	filter     [][]byte
	filterOIDs []uint32
}

// newQueries writes the statements. A page takes $1 row limit, $2 byte limit,
// $3 High, $4 and $5 the ends of the open ranges, $6… the filter's patterns.
func newQueries(t *table, f Filters) queries {
	condition, patterns := f.condition(6)
	if condition == "" {
		condition = "true"
	}
	var q queries
	for _, p := range patterns {
		q.filter, q.filterOIDs = append(q.filter, []byte(p)), append(q.filterOIDs, pgtype.TextArrayOID)
	}
	columns := func(run string) string {
		return `SELECT e.id, e.run_id, e.seq, e.type, e.step, e.node_id, e.channel_id, e.task_id, ` + run + `,
		e.occurred_at, e.inserted_at, e.payload, e.metadata, ` + condition + ` AS keep`
	}
	joined := columns(`r.tenant_id, r.graph_id, r.graph_hash`)
	join := ` LEFT JOIN ` + t.runs + ` r ON r.run_id = e.run_id`
	within := func(columns, limit string) string {
		return columns + ` FROM unnest($4::int8[], $5::int8[]) AS hole(lo, hi)
		CROSS JOIN LATERAL (SELECT * FROM ` + t.events + ` x WHERE x.id BETWEEN hole.lo AND hole.hi ORDER BY x.id` + limit + `) e`
	}
	const limit = ` ORDER BY e.id LIMIT $1::int8 + 1`
	above := ` WHERE e.id > $3::int8`
	open := within(joined, ` LIMIT $1::int8 + 1`) + join + limit

	q.page = `WITH open AS MATERIALIZED (` + numbered(open, "", "") + `),
	passed AS (SELECT count(*) AS n, coalesce(sum(size), 0)::int8 AS bytes FROM open)
	` + limited(`SELECT * FROM open UNION ALL SELECT * FROM (`+
		numbered(joined+` FROM `+t.events+` e`+join+above+limit, ` + (SELECT n FROM passed)`, ` + (SELECT bytes FROM passed)`)+`) above`)
	q.ranges = `SELECT ` + pageColumns + ` FROM (SELECT *, true AS taken FROM (` + within(joined, "") + join + `) e) p`
	q.ids = within(`SELECT e.id`, ` LIMIT $1::int8`) + ` LIMIT $1::int8`
	q.runs = `SELECT run_id, tenant_id, graph_id, graph_hash FROM ` + t.runs + ` WHERE run_id = ANY ($1::text[])`
	q.idle = `SELECT statement_timestamp(), CASE WHEN is_called THEN last_value ELSE last_value - 1 END = $1::int8 AND tableoid = $2::oid
		AND NOT pg_is_in_recovery() AND NOT EXISTS (SELECT FROM ` + t.events + ` WHERE id > $1::int8) FROM ` + t.sequence + ``
	if f.Tenants.all() && f.Graphs.all() {
		q.fast = `SELECT ` + pageColumns + ` FROM (SELECT *, NOT keep OR ` + size + ` <= ` + strconv.Itoa(fastSize) + ` AS taken FROM (` +
			columns(`NULL::text AS tenant_id, NULL::text AS graph_id, NULL::text AS graph_hash`) + ` FROM ` + t.events + ` e` + above + limit + `) e) p ORDER BY id`
	}
	return q
}

// fastSize is the size of a row from which on it is left to the slower
// statement, so that the fast one cannot send much that is not wanted.
const fastSize = 64 << 10

// size is what a row counts. octet_length reads no toasted value.
var size = `CASE WHEN keep THEN least(octet_length(payload)::int8 + octet_length(metadata) + 2 * octet_length(run_id), 2000000000)::int4
	ELSE 0 END + ` + strconv.Itoa(rowOverhead)

// numbered adds to rows their number n in id order, their size and the size
// of all rows up to them.
func numbered(rows, earlierRows, earlierBytes string) string {
	return `SELECT *, row_number() OVER w` + earlierRows + ` AS n, sum(size) OVER w` + earlierBytes + ` AS bytes FROM (
		SELECT *, ` + size + ` AS size FROM (` + rows + `) e
	) sized WINDOW w AS (ORDER BY id ROWS UNBOUNDED PRECEDING)`
}

// limited cuts numbered rows: those within both limits and always the first
// are taken, the one after them marks the cut.
func limited(rows string) string {
	return `SELECT ` + pageColumns + ` FROM (
		SELECT *, n = 1 OR (n <= $1::int8 AND bytes <= $2::int8) AS taken FROM (` + rows + `) numbered
		WHERE n <= 2 OR (n <= $1::int8 + 1 AND bytes - size <= $2::int8)) p`
}

// page is the result of a page statement: one stream of rows in id order,
// open ids first, under one row limit and one byte limit.
type page struct {
	rows    []exporter.Event // those that the filter keeps
	poison  []exporter.Rejection
	ids     []int64 // of every row taken, in no order
	cut     bool
	cutID   int64 // the first row beyond the limits
	bare    bool  // read by queries.fast: the run columns are still to come
	highest int64 // of ids; math.MinInt64 when there are none
	bytes   int64 // encoded payloads and metadata
	top     *topRow
}

// no is false in a column.
var no = []byte{0}

// readPage reads the rows of a statement with pageColumns. In a bare one, which
// comes in id order, it makes the cut itself: at the first row beyond the
// limits, or too large for it.
func (s *Source) readPage(rr *pgconn.ResultReader, bare bool) (page, error) {
	m := &s.memory[s.turn]
	m.arena.reset()
	p := page{rows: m.rows[:0], ids: m.ids[:0], highest: math.MinInt64, bare: bare, top: &m.top}
	size := int64(0)
	for rr.NextRow() {
		v := rr.Values()
		id := int8At(v[0])
		if bare {
			size += int64(rowOverhead + len(v[3])*2 + len(v[15]) + len(v[16]))
			if p.cut || len(p.ids) == s.limits.Events || len(p.ids) > 0 && size > s.limits.Bytes {
				v[1] = no
			}
		}
		if !boolAt(v[1]) {
			if !p.cut {
				p.cut, p.cutID = true, id
			}
			continue
		}
		p.ids = append(p.ids, id)
		top := id > p.highest
		if top {
			p.highest, p.top.bare = id, false
		}
		if !boolAt(v[2]) {
			if top {
				p.top.keep(v)
			}
			continue
		}
		p.bytes += int64(len(v[15]) + len(v[16]))
		p.rows = append(p.rows, exporter.Event{})
		e := &p.rows[len(p.rows)-1]
		rejection, err := s.decode(e, v, &m.arena)
		if err != nil {
			_, _ = rr.Close()
			return page{}, err
		}
		if top {
			p.top.event, p.top.poison = len(p.rows)-1, rejection != nil
		}
		if rejection != nil {
			if top {
				p.top.event = len(p.poison)
			}
			p.poison = append(p.poison, *rejection)
			p.rows = p.rows[:len(p.rows)-1]
		}
	}
	_, err := rr.Close()
	m.rows, m.ids = p.rows, p.ids
	return p, err
}

// pageStatement reads at most events rows and bytes bytes: those of from's
// holes and, unless only the holes are wanted, those above it.
func (s *Source) pageStatement(from exporter.Position, onlyHoles, fast bool, into *page) statement {
	high := from.High
	if onlyHoles {
		high = math.MaxInt64
	}
	st := s.rangesStatement(s.sql.page, from.Holes, into)
	if fast && s.sql.fast != "" && len(from.Holes) == 0 {
		st = s.rangesStatement(s.sql.fast, nil, into)
	}
	st.values[2] = strconv.AppendInt(nil, high, 10)
	return st
}

// rangesStatement is a statement over the rows within ids.
func (s *Source) rangesStatement(sql string, ids exporter.Ranges, into *page) statement {
	los, his := rangeArrays(ids)
	return statement{
		sql: sql,
		values: append([][]byte{
			strconv.AppendInt(nil, int64(s.limits.Events), 10), strconv.AppendInt(nil, s.limits.Bytes, 10), []byte("0"), los, his,
		}, s.sql.filter...),
		types: append([]uint32{pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8ArrayOID, pgtype.Int8ArrayOID}, s.sql.filterOIDs...),
		read: func(rr *pgconn.ResultReader) (err error) {
			*into, err = s.readPage(rr, sql == s.sql.fast)
			return err
		},
	}
}

// maxVisible bounds how many ids idsStatement looks at.
const maxVisible = 100_000

// idsStatement asks which of ids are visible; complete is false when there
// are more than maxVisible.
func (s *Source) idsStatement(ids exporter.Ranges, into *exporter.Ranges, complete *bool) statement {
	los, his := rangeArrays(ids)
	return statement{
		sql:    s.sql.ids,
		values: [][]byte{strconv.AppendInt(nil, maxVisible, 10), nil, nil, los, his},
		types:  []uint32{pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8ArrayOID, pgtype.Int8ArrayOID},
		read: func(rr *pgconn.ResultReader) error {
			var found []int64
			for rr.NextRow() {
				found = append(found, int8At(rr.Values()[0]))
			}
			*into, *complete = rangesOf(found), len(found) < maxVisible
			_, err := rr.Close()
			return err
		},
	}
}

func rangeArrays(ids exporter.Ranges) (los, his []byte) {
	los = appendInt8Array(nil, func(yield func(int64) bool) {
		for _, r := range ids {
			if !yield(r.Lo) {
				return
			}
		}
	})
	his = appendInt8Array(nil, func(yield func(int64) bool) {
		for _, r := range ids {
			if !yield(r.Hi) {
				return
			}
		}
	})
	return los, his
}
