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

// ErrStart says that a start cannot be used, now or later.
var ErrStart = errors.New("no place in the events")

// startValues ends the errors about a start.
const startValues = "CONSUMER_…_START is earliest, latest, a position such as 120345 or 120345-{[120300,120302]}, or a time such as 2026-11-29T08:00:00Z or 2026-11-29"

// StartPosition returns where a new consumer begins. A start is
//
//   - earliest: below everything that exists
//   - latest: at the highest visible id, with the ids that are missing among the last
//     100,000 open, since their transactions may still commit
//   - a position as exporter.Position prints it, not above the id sequence
//   - a time (RFC 3339, or a date for its midnight in UTC): just below the
//     lowest id whose inserted_at is at or after it, what is missing among the last 100,000
//     ids open as for latest; like latest when every row is older
//
// A time is compared with inserted_at, which is taken from the database's
// clock for the events of a step and from the application's clock for those of
// a run's start, a cancellation and a resolved interrupt. It follows neither
// the ids nor the commits, so some rows after the position may be older than
// the time. None at or after it is left out.
//
// Each start is read in one snapshot.
func StartPosition(ctx context.Context, pool *pgxpool.Pool, schema, start string) (exporter.Position, error) {
	at, since, err := parseStart(start)
	if err != nil {
		return exporter.Position{}, err
	}
	t, err := findTable(ctx, pool, schema)
	if err != nil {
		return exporter.Position{}, err
	}
	var p exporter.Position
	switch {
	case at != nil:
		p = *at
		err = t.verifyPosition(ctx, pool, p)
	case start == "earliest":
		err = t.read(ctx, pool, t.earliestStatement(&p))
	default:
		err = t.read(ctx, pool, t.recentStatement(since, &p))
	}
	if err != nil {
		return exporter.Position{}, fmt.Errorf("find the start %q in %s: %w", start, t.events, err)
	}
	return p, nil
}

// parseStart returns a position, a time (nil for latest), or neither for
// earliest.
func parseStart(start string) (at *exporter.Position, since *time.Time, err error) {
	if start == "earliest" || start == "latest" {
		return nil, nil, nil
	}
	p, err := exporter.ParsePosition(start)
	if err == nil {
		return &p, nil, nil
	}
	if strings.Contains(start, "{") {
		return nil, nil, fmt.Errorf("%w: %w; %s", ErrStart, err, startValues)
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, start); err == nil {
			return nil, &at, nil
		}
	}
	return nil, nil, fmt.Errorf("start %q is %w; %s", start, ErrStart, startValues)
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
func (t *table) verifyPosition(ctx context.Context, pool *pgxpool.Pool, p exporter.Position) error {
	var last int64
	err := pool.QueryRow(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM `+t.sequence).Scan(&last)
	if err != nil {
		return fmt.Errorf("read the id sequence %s: %w", t.sequence, err)
	}
	if p.High > last {
		return fmt.Errorf("%w: the id sequence %s is at %d, below it: its events do not exist yet; %s", ErrStart, t.sequence, last, startValues)
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

// recentStatement reads the position of latest (since is nil) or of a time.
// It returns one row for every open range and at least one.
func (t *table) recentStatement(since *time.Time, into *exporter.Position) statement {
	st := statement{sql: t.recentSQL(since != nil), read: func(rr *pgconn.ResultReader) error {
		var p exporter.Position
		for rr.NextRow() {
			v := rr.Values()
			p.High = int8At(v[0])
			if v[1] != nil {
				p.Holes = p.Holes.Append(exporter.Range{Lo: int8At(v[1]), Hi: int8At(v[2])})
			}
		}
		*into = p
		_, err := rr.Close()
		return err
	}}
	if since != nil {
		at := since.Add(time.Microsecond - 1).Truncate(time.Microsecond) // PostgreSQL would round down
		st.values = [][]byte{[]byte(at.UTC().Format(time.RFC3339Nano))}
		st.types = []uint32{pgtype.TimestamptzOID}
	}
	return st
}

// recentSQL finds the start and the ids missing below it, no further down than
// recentIDs below the highest and, where ids are positive, not below 1. The
// OFFSET keeps the lowest id at or after a time a walk over the index on
// (inserted_at, id): walking ids until one is young enough could mean the
// whole table.
func (t *table) recentSQL(since bool) string {
	start := `top.id`
	if since {
		start = `coalesce((SELECT min(id) FROM (SELECT id FROM ` + t.events + ` WHERE inserted_at >= $1 OFFSET 0) young) - 1, top.id)`
	}
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
