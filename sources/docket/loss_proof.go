package docket

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/retention"
)

// Bounds of a look at what is around dropped ids.
const (
	lookedRanges = 32  // ranges whose neighbours are looked at
	wideRows     = 200 // rows behind each, where events may be lost
	narrowRows   = 50  // and where that is not likely
	lostRuns     = 100 // runs that a loss names
	windowRuns   = 1000

	// clockSkew is how far the clocks of applications, which date the runs, are
	// trusted to differ from the database's.
	clockSkew = time.Minute
)

// look is one look at what is around dropped ids.
type look struct {
	sight   retention.Sight
	horizon time.Time
	ids     exporter.Ranges
	since   time.Time // what the ids stood for that the retention may have reached was inserted later; zero without such ids
	wide    bool

	broken   []brokenRun
	vanished []exporter.LostRun // runs of the window of which no event is left
}

// brokenRun is a run that lacks events before one that lies behind a gap.
type brokenRun struct {
	gap exporter.Range
	exporter.LostRun
}

// gaps returns the ids that broken runs prove.
func (k *look) gaps() exporter.Ranges {
	var ids exporter.Ranges
	for _, b := range k.broken {
		ids = ids.Union(exporter.Ranges{b.gap})
	}
	return ids
}

func (k *look) runsBehind(ids exporter.Ranges) []exporter.LostRun {
	var runs []exporter.LostRun
	for _, b := range k.broken {
		if ids.Contains(b.gap.Lo) {
			runs = append(runs, b.LostRun)
		}
	}
	return runs
}

// prove looks for runs whose missing events must have been among the ids: a
// run younger than the retention lacks the event before one it has, or it
// began after everything that was read.
func (s *Source) prove(ctx context.Context, t *tx, k *look) error {
	near := k.ids
	if len(near) > lookedRanges { // the lowest and the highest
		near = slices.Concat(near[:lookedRanges/2], near[len(near)-lookedRanges/2:])
	}
	if len(near) == 0 {
		return nil
	}
	ask := []statement{s.table.brokenRunsStatement(k, near)}
	if !k.since.IsZero() {
		ask = append(ask, s.table.vanishedRunsStatement(k))
	}
	return t.run(ctx, ask...)
}

// brokenRunsStatement looks at the rows behind gaps. A LATERAL with a LIMIT is
// always looked up row by row: a join could choose to read all events.
func (t *table) brokenRunsStatement(k *look, near exporter.Ranges) statement {
	los, his := rangeArrays(near)
	rows := narrowRows
	if k.wide {
		rows = wideRows
	}
	return statement{
		sql: `
SELECT DISTINCT ON (e.run_id, e.seq) g.lo, g.hi, e.run_id, e.seq, coalesce(before.seq, 0)
FROM unnest($1::int8[], $2::int8[]) AS g(lo, hi)
CROSS JOIN LATERAL (SELECT x.run_id, x.seq FROM ` + t.events + ` x WHERE x.id > g.hi ORDER BY x.id LIMIT ` + strconv.Itoa(rows) + `) e
CROSS JOIN LATERAL (SELECT x.started_at FROM ` + t.runs + ` x WHERE x.run_id = e.run_id LIMIT 1) r
LEFT JOIN LATERAL (SELECT x.seq FROM ` + t.events + ` x WHERE x.run_id = e.run_id AND x.seq < e.seq ORDER BY x.seq DESC LIMIT 1) before ON true
WHERE coalesce(before.seq, 0) < e.seq - 1 AND (r.started_at > $3::timestamptz OR r.started_at >= $4::timestamptz)
ORDER BY e.run_id, e.seq, g.hi DESC
LIMIT ` + strconv.Itoa(lostRuns),
		values: [][]byte{los, his, timeText(k.horizon.Add(clockSkew)), k.began()},
		types:  []uint32{pgtype.Int8ArrayOID, pgtype.Int8ArrayOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				k.broken = append(k.broken, brokenRun{
					gap:     exporter.Range{Lo: int8At(v[0]), Hi: int8At(v[1])},
					LostRun: exporter.LostRun{RunID: string(v[2]), First: int8At(v[4]) + 1, Last: int8At(v[3]) - 1},
				})
			}
			_, err := rr.Close()
			return err
		},
	}
}

// vanishedRunsStatement finds runs that began after everything that was read,
// are old enough to have been pruned, and have no event left.
func (t *table) vanishedRunsStatement(k *look) statement {
	return statement{
		sql: `
SELECT r.run_id FROM (
	SELECT x.run_id, x.started_at FROM ` + t.runs + ` x WHERE x.started_at >= $1::timestamptz AND x.started_at <= $2::timestamptz
	ORDER BY x.started_at, x.run_id LIMIT ` + strconv.Itoa(windowRuns) + `) r
LEFT JOIN LATERAL (SELECT x.seq FROM ` + t.events + ` x WHERE x.run_id = r.run_id LIMIT 1) e ON true
WHERE e.seq IS NULL
ORDER BY r.started_at, r.run_id LIMIT ` + strconv.Itoa(lostRuns),
		values: [][]byte{k.began(), timeText(k.horizon)},
		types:  []uint32{pgtype.TimestamptzOID, pgtype.TimestamptzOID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				k.vanished = append(k.vanished, exporter.LostRun{RunID: string(rr.Values()[0]), First: 1})
			}
			_, err := rr.Close()
			return err
		},
	}
}

// began is when a run must have begun, or later, for none of its events to have
// been read; NULL where that is not known.
func (k *look) began() []byte {
	if k.since.IsZero() {
		return nil
	}
	return timeText(k.since.Add(clockSkew))
}

// timeText is a time as a parameter; NULL for zero.
func timeText(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return []byte(t.UTC().Format(time.RFC3339Nano))
}
