package docket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
)

// recentIDs is how many of the highest ids may belong to transactions that
// have not committed when a consumer starts behind them.
const recentIDs = 100_000

// startTimeout bounds the one read of a start on the server: a time long ago
// in a large table has many index entries above it.
const startTimeout = 5 * time.Minute

// ErrStart says that a place cannot be used, now or later.
var ErrStart = errors.New("no place in the events")

// Places says how a place is written, for errors and help.
const Places = "write earliest, latest, a position such as 120345 or 120345-{[120300,120302]}, id:120345, " +
	"time:2026-11-29T08:00:00Z, time:2026-11-29, run:RUN_ID or run:RUN_ID/SEQ"

// Place is a place in the events as a person writes it; ParsePlace reads one.
type Place struct {
	text  string
	at    *exporter.Position // a position
	id    *int64             // just below an id
	since *time.Time         // just below the lowest id of a time
	run   string             // just below an event of a run
	seq   *int64             // which one; nil for its first
}

// String returns the place as it was written.
func (p Place) String() string { return p.text }

// IsPosition reports whether the place is a position as exporter.Position prints
// it: of other places nobody has said which ids are open there.
func (p Place) IsPosition() bool { return p.at != nil }

// Time is the time that the place is written as; false for any other place.
func (p Place) Time() (at time.Time, ok bool) {
	if p.since == nil {
		return at, false
	}
	return *p.since, true
}

// ParsePlace reads a place. A person's mistake is ErrStart.
func ParsePlace(text string) (Place, error) {
	p := Place{text: text}
	kind, value, found := strings.Cut(text, ":")
	wrong := func(want string) (Place, error) {
		return p, fmt.Errorf("%q is %w: want %s; %s", text, ErrStart, want, Places)
	}
	switch {
	case text == "earliest" || text == "latest":
		return p, nil
	case found && kind == "run":
		p.run = value
		if i := strings.LastIndexByte(value, '/'); i >= 0 {
			if seq, err := strconv.ParseInt(value[i+1:], 10, 64); err == nil {
				p.run, p.seq = value[:i], &seq
			}
		}
		if p.run == "" {
			return wrong("a run's id after run:")
		}
		return p, nil
	case found && kind == "id":
		id, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return wrong("a whole number after id:")
		}
		if id < 1 {
			return p, fmt.Errorf("%q is %w: it would be below every id; write earliest, or an id from 1", text, ErrStart)
		}
		p.id = &id
		return p, nil
	case found && kind == "time":
		return p, p.parseTime(value)
	}
	if at, err := exporter.ParsePosition(text); err == nil {
		if at.High < 0 {
			return p, fmt.Errorf("%q is %w: it is below every id; write earliest, or a position from 0", text, ErrStart)
		}
		p.at = &at
		return p, nil
	} else if strings.Contains(text, "{") {
		return p, fmt.Errorf("%w: %w; %s", ErrStart, err, Places)
	}
	return p, p.parseTime(text)
}

// layouts are the ways to write a time; one without a zone is in UTC.
var layouts = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly}

func (p *Place) parseTime(text string) error {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil && at.UTC().Year() > 0 { // PostgreSQL has no year 0
			p.since = &at
			return nil
		}
	}
	return fmt.Errorf("%q is %w; %s", p.text, ErrStart, Places)
}

// StartPosition returns the position of a place:
//
//   - earliest: below everything that exists
//   - latest: at the highest visible id, with the ids that are missing among the last
//     100,000 open, since their transactions may still commit
//   - a position as exporter.Position prints it, not above the id sequence
//   - id:N: just below the id N, from 1, which is the first event
//   - time:T (RFC 3339, or a date for its midnight in UTC; time: may be left out): just below the
//     lowest id whose inserted_at is at or after it; like latest when every row is older
//   - run:R: just below the run's first event; run:R/SEQ: just below that one
//
// What is missing among the last 100,000 ids is open as for latest, whatever
// the place.
//
// A time is compared with inserted_at, which is taken from the database's
// clock for the events of a step and from the application's clock for those of
// a run's start, a cancellation and a resolved interrupt. It follows neither
// the ids nor the commits, so some rows after the position may be older than
// the time. None at or after it is left out.
//
// Each place is looked up in one snapshot.
func StartPosition(ctx context.Context, pool *pgxpool.Pool, schema string, place Place) (exporter.Position, error) {
	t, err := findTable(ctx, pool, schema)
	if err != nil {
		return exporter.Position{}, err
	}
	var p exporter.Position
	switch {
	case place.at != nil:
		p = *place.at
		err = t.verifyPosition(ctx, pool, p.High)
	case place.text == "earliest":
		err = t.read(ctx, pool, t.earliestStatement(&p))
	default:
		if place.id != nil {
			err = t.verifyPosition(ctx, pool, *place.id-1)
		}
		if err == nil {
			err = t.recent(ctx, pool, place, &p)
		}
	}
	if err != nil {
		return exporter.Position{}, fmt.Errorf("find %.100q in %s: %w", place.text, t.events, noText(err))
	}
	return p, nil
}

// read runs one statement with plans that walk indexes.
func (t *table) read(ctx context.Context, pool *pgxpool.Pool, st statement) error {
	x, err := begin(ctx, pool, startTimeout)
	if err != nil {
		return err
	}
	defer x.end(ctx)
	return x.run(ctx, indexesOnly, st)
}

// verifyPosition refuses a position above the ids handed out: they would be
// taken as done before they exist.
func (t *table) verifyPosition(ctx context.Context, pool *pgxpool.Pool, high int64) error {
	var last int64
	err := pool.QueryRow(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM `+t.sequence).Scan(&last)
	if err != nil {
		return fmt.Errorf("read the id sequence %s: %w", t.sequence, err)
	}
	if high > last {
		return fmt.Errorf("%w: the id sequence %s is at %d, below it: its events do not exist yet; %s", ErrStart, t.sequence, last, Places)
	}
	return nil
}

func (t *table) earliestStatement(into *exporter.Position) statement {
	return statement{
		sql: `SELECT least(0, (SELECT min(id) FROM ` + t.events + `) - 1)`,
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				*into = exporter.Position{High: int8At(rr.Values()[0])}
			}
			_, err := rr.Close()
			return err
		},
	}
}

// recent reads the position of a place that has a first event.
func (t *table) recent(ctx context.Context, pool *pgxpool.Pool, place Place, into *exporter.Position) error {
	found := false
	if err := t.read(ctx, pool, t.recentStatement(place, into, &found)); err != nil || found {
		return err
	}
	if place.seq != nil {
		return fmt.Errorf("%w: run %q has no event %d here; it may have been pruned, or the run is of another Docket", ErrStart, place.run, *place.seq)
	}
	return fmt.Errorf("%w: run %q has no events here; they may have been pruned, or the run is of another Docket", ErrStart, place.run)
}

// recentStatement returns one row for every open range and at least one,
// unless the place's first event does not exist.
func (t *table) recentStatement(place Place, into *exporter.Position, found *bool) statement {
	st := statement{read: func(rr *pgconn.ResultReader) error {
		var p exporter.Position
		for rr.NextRow() {
			v := rr.Values()
			*found = v[0] != nil
			if !*found {
				continue
			}
			p.High = int8At(v[0])
			if v[1] != nil {
				p.Holes = p.Holes.Append(exporter.Range{Lo: int8At(v[1]), Hi: int8At(v[2])})
			}
		}
		*into = p
		_, err := rr.Close()
		return err
	}}
	start := `top.id`
	switch {
	case place.since != nil:
		start = `coalesce((SELECT min(id) FROM (SELECT id FROM ` + t.events + ` WHERE inserted_at >= $1 OFFSET 0) young) - 1, top.id)`
		at := place.since.Add(time.Microsecond - 1).Truncate(time.Microsecond) // PostgreSQL would round down
		st.values = [][]byte{[]byte(at.UTC().Format(time.RFC3339Nano))}
		st.types = []uint32{pgtype.TimestamptzOID}
	case place.id != nil:
		start = `least($1, top.id + 1) - 1`
		st.values = [][]byte{strconv.AppendInt(nil, *place.id, 10)}
		st.types = []uint32{pgtype.Int8OID}
	case place.run != "":
		start = `(SELECT id - 1 FROM ` + t.events + ` WHERE run_id = $1 ORDER BY seq LIMIT 1)`
		st.values, st.types = [][]byte{[]byte(place.run)}, []uint32{pgtype.TextOID}
		if place.seq != nil {
			start = `(SELECT id - 1 FROM ` + t.events + ` WHERE run_id = $1 AND seq = $2)`
			st.values, st.types = append(st.values, strconv.AppendInt(nil, *place.seq, 10)), append(st.types, pgtype.Int8OID)
		}
	}
	st.sql = t.recentSQL(start)
	return st
}

// recentSQL finds the ids missing below a start, no further down than
// recentIDs below the highest and, where ids are positive, not below 1. The
// OFFSET keeps the lowest id at or after a time a walk over the index on
// (inserted_at, id): walking ids until one is young enough could mean the
// whole table.
func (t *table) recentSQL(start string) string {
	return `
WITH top AS MATERIALIZED (
	SELECT coalesce(max(id), 0) AS id FROM ` + t.events + `
), start AS MATERIALIZED (
	SELECT ` + start + ` AS id, greatest(top.id - ` + strconv.Itoa(recentIDs) + `, least(0, top.id)) AS floor FROM top
), visible AS (
	SELECT id FROM ` + t.events + ` WHERE id > (SELECT floor FROM start) AND id <= (SELECT id FROM start)
	UNION ALL
	SELECT id + 1 FROM start WHERE id > floor
), missing AS (
	SELECT before + 1 AS lo, id - 1 AS hi
	FROM (SELECT id, lag(id, 1, (SELECT floor FROM start)) OVER (ORDER BY id) AS before FROM visible) v
	WHERE id - before > 1
)
SELECT start.id, missing.lo, missing.hi FROM start LEFT JOIN missing ON true ORDER BY missing.lo`
}
