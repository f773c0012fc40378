package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	exporter "github.com/docket-exporter/exporter"
)

// Reader reads what a table holds of a consumer's events, to compare it with
// the source. It writes nothing.
//
// Events are told by a digest that the server computes over the columns that
// Deliver fills, and Digester over an event: equal digests mean equal columns. A
// column of the JSON type is left out, since the server keeps no text of it.
type Reader struct {
	conn     driver.Conn
	table    string       // quoted
	id       string       // expression of the event's id
	where    string       // the id's column, as an index wants it
	digest   string       // expression
	texts    []expression // of the event
	runTexts []expression // of its run, with its id; empty where none is compared
	left     []string     // columns that are not compared
	collapse bool         // the engine keeps one row for a key, in time
}

// OpenReader looks at the table. Without content, digests cover the identity
// alone. The error says what a person must mend, like that of Deliver.
func OpenReader(ctx context.Context, cfg Config, content bool) (*Reader, error) {
	sink, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	r, err := openReader(ctx, sink, content)
	if err != nil {
		_ = sink.Close()
		return nil, fmt.Errorf("read table %s: %w", sink.cfg.Table, sink.answer(err))
	}
	return r, nil
}

func openReader(ctx context.Context, sink *Sink, content bool) (*Reader, error) {
	t, err := describe(ctx, sink.conn, sink.cfg.Table)
	if err != nil {
		return nil, err
	}
	r := &Reader{conn: sink.conn, table: quoteTable(t.table), id: "toInt64(`event_id`)", where: "`event_id`"}
	known := fields()
	id := 0
	for _, c := range t.columns {
		f := known[slices.IndexFunc(known, func(f field) bool { return f.name == c.name })]
		if c.name == "event_id" && parseType(c.typ).base == "String" {
			r.where = r.id
		}
		if !content && !f.required {
			continue
		}
		x, ok := express(f, c)
		if !ok {
			r.left = append(r.left, c.name)
			continue
		}
		x.column = c.name
		if f.run {
			r.runTexts = append(r.runTexts, x)
			continue
		}
		if f.name == "run_id" {
			id = len(r.texts)
		}
		r.texts = append(r.texts, x)
	}
	r.digest = hashOf(r.texts)
	if len(r.runTexts) > 0 {
		r.runTexts = append(r.runTexts, r.texts[id])
		r.digest += " + " + hashOf(r.runTexts)
	}
	r.collapse, err = collapses(ctx, sink.conn, t.table)
	return r, err
}

// collapses reports whether SELECT … FINAL shows one row for a sorting key.
func collapses(ctx context.Context, conn driver.Conn, table string) (bool, error) {
	database, name := "currentDatabase()", table
	if before, after, found := strings.Cut(table, "."); found {
		database, name = "'"+before+"'", after
	}
	var engine string
	err := conn.QueryRow(ctx, "SELECT any(engine) FROM system.tables WHERE database = "+database+" AND name = '"+name+"'").Scan(&engine)
	return strings.Contains(engine, "Replacing"), err
}

// Leaves returns the columns that are filled and not compared.
func (r *Reader) Leaves() []string { return r.left }

// Digester returns functions for one goroutine. The digest of a row is the sum
// of what event says of its event without the columns of its run, and run of
// these. Where none of them is compared, run is nil.
func (r *Reader) Digester() (event, run func(*exporter.Event) uint64) {
	if len(r.runTexts) > 0 {
		run = digester(r.runTexts)
	}
	return digester(r.texts), run
}

func digester(texts []expression) func(*exporter.Event) uint64 {
	var scratch []byte
	return func(e *exporter.Event) uint64 {
		sum := uint64(0)
		for i := range texts {
			scratch = texts[i].text(scratch[:0], e)
			if h := cityHash(scratch); i == 0 {
				sum = h
			} else {
				sum = combine(sum, h)
			}
		}
		return sum
	}
}

// hashOf is the same, computed by the server.
func hashOf(texts []expression) string {
	parts := make([]string, len(texts))
	for i := range texts {
		parts[i] = texts[i].sql
	}
	return "cityHash64(" + strings.Join(parts, ", ") + ")"
}

// mostRanges bounds the ranges in one statement.
const mostRanges = 500

// Sum adds up the rows within ids by windows of 2^shift ids: how many there
// are, and the sum of their digests. A row that is there twice counts twice.
func (r *Reader) Sum(ctx context.Context, ids exporter.Ranges, shift uint, add func(window, rows int64, sum uint64)) error {
	for some := range slices.Chunk(ids, mostRanges) {
		if err := r.sum(ctx, some, shift, add); err != nil {
			return fmt.Errorf("sum up table %s: %w", r.table, err)
		}
	}
	return nil
}

func (r *Reader) sum(ctx context.Context, ids exporter.Ranges, shift uint, add func(window, rows int64, sum uint64)) error {
	rows, err := r.conn.Query(ctx, fmt.Sprintf("SELECT bitShiftRight(%s, %d) AS w, toInt64(count()), sum(%s) FROM %s WHERE %s GROUP BY w",
		r.id, shift, r.digest, r.table, r.within(ids)))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var window, n int64
		var sum uint64
		if err := rows.Scan(&window, &n, &sum); err != nil {
			return err
		}
		add(window, n, sum)
	}
	return rows.Err()
}

// Count returns how many rows are of events within ids.
func (r *Reader) Count(ctx context.Context, ids exporter.Ranges) (n int64, err error) {
	for some := range slices.Chunk(ids, mostRanges) {
		var more int64
		err := r.conn.QueryRow(ctx, fmt.Sprintf("SELECT toInt64(count()) FROM %s WHERE %s", r.table, r.within(some))).Scan(&more)
		if err != nil {
			return 0, fmt.Errorf("count rows of table %s: %w", r.table, err)
		}
		n += more
	}
	return n, nil
}

func (r *Reader) within(ids exporter.Ranges) string {
	texts := make([]string, len(ids))
	for i, x := range ids {
		texts[i] = fmt.Sprintf("%s BETWEEN %d AND %d", r.where, x.Lo, x.Hi)
	}
	return strings.Join(texts, " OR ")
}

// copyOf is a row of an event.
type copyOf struct {
	exporter.Identity
	digest uint64
}

// Rows calls visit for each row within ids. Where the engine keeps one row for
// a key and the rows of an event differ, only the one that stays is visited.
// Every row is taken for genuine.
func (r *Reader) Rows(ctx context.Context, ids exporter.Range, visit func(id exporter.Identity, digest uint64, genuine bool) error) error {
	all, err := r.rows(ctx, "", r.within(exporter.Ranges{ids}))
	if err != nil {
		return err
	}
	if all, err = r.settle(ctx, all); err != nil {
		return err
	}
	for i := range all {
		if err := visit(all[i].Identity, all[i].digest, true); err != nil {
			return err
		}
	}
	return nil
}

// mostSettled bounds the ids in one statement.
const mostSettled = 1000

// settle replaces rows of one event that differ by the one that stays.
func (r *Reader) settle(ctx context.Context, all []copyOf) ([]copyOf, error) {
	if !r.collapse {
		return all, nil
	}
	first, disputed := map[exporter.Identity]uint64{}, map[int64]bool{}
	for _, c := range all {
		if digest, seen := first[c.Identity]; seen && digest != c.digest {
			disputed[c.EventID] = true
		}
		first[c.Identity] = c.digest
	}
	all = slices.DeleteFunc(all, func(c copyOf) bool { return disputed[c.EventID] })
	for list := range slices.Chunk(slices.Collect(maps.Keys(disputed)), mostSettled) {
		texts := make([]string, len(list))
		for i, id := range list {
			texts[i] = strconv.FormatInt(id, 10)
		}
		stay, err := r.rows(ctx, " FINAL", r.id+" IN ("+strings.Join(texts, ", ")+")")
		if err != nil {
			return nil, err
		}
		all = append(all, stay...)
	}
	return all, nil
}

func (r *Reader) rows(ctx context.Context, final, where string) ([]copyOf, error) {
	rows, err := r.conn.Query(ctx, fmt.Sprintf("SELECT toString(`run_id`), toInt64(`seq`), %s, %s FROM %s%s WHERE %s", r.id, r.digest, r.table, final, where))
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", r.table, err)
	}
	defer rows.Close()
	var all []copyOf
	for rows.Next() {
		var c copyOf
		if err := rows.Scan(&c.RunID, &c.Seq, &c.EventID, &c.digest); err != nil {
			return nil, fmt.Errorf("read table %s: %w", r.table, err)
		}
		c.RunID = strings.TrimRight(c.RunID, "\x00") // of a FixedString
		all = append(all, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read table %s: %w", r.table, err)
	}
	return all, nil
}

// Refresh does nothing: the server knows what has been inserted.
func (r *Reader) Refresh(context.Context) error { return nil }

// Close ends the connection.
func (r *Reader) Close() error { return r.conn.Close() }
