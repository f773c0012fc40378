package docket

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
)

// RunState is what a run's rows say about whether all of them are there.
type RunState struct {
	Finished  bool      // its status is one that does not change
	StartedAt time.Time // by the application's clock
	Events    int64     // rows, of any filter
	FirstSeq  int64     // 0 without rows
	LastSeq   int64
	FirstID   int64
	Ended     bool      // the last row is the checkpoint with which a run ends
	Now       time.Time // of Docket's database
}

// Whole reports whether the rows of a finished run are numbered from 1 without
// a gap, and the last one is its last checkpoint.
func (r *RunState) Whole() bool {
	return r.Events > 0 && r.FirstSeq == 1 && r.LastSeq == r.Events && r.Ended
}

// Runs returns the state of those of the runs that exist.
func (s *Source) Runs(ctx context.Context, ids []string) (map[string]RunState, error) {
	states := make(map[string]RunState, len(ids))
	err := s.read(ctx, func(ctx context.Context, t *tx) error {
		return t.run(ctx, statement{
			sql: `SELECT r.run_id, r.finished_at IS NOT NULL, r.started_at, s.n, s.first_seq, s.last_seq, s.first_id,
				coalesce((SELECT ` + terminalCheckpoint + ` FROM ` + s.table.events + ` e WHERE e.run_id = r.run_id ORDER BY e.seq DESC LIMIT 1), false),
				clock_timestamp()
				FROM ` + s.table.runs + ` r CROSS JOIN LATERAL (
					SELECT count(*) AS n, coalesce(min(e.seq), 0) AS first_seq, coalesce(max(e.seq), 0) AS last_seq, coalesce(min(e.id), 0) AS first_id
					FROM ` + s.table.events + ` e WHERE e.run_id = r.run_id) s
				WHERE r.run_id = ANY ($1::text[])`,
			values: [][]byte{[]byte(textArray(ids))}, types: []uint32{pgtype.TextArrayOID},
			read: func(rr *pgconn.ResultReader) error {
				for rr.NextRow() {
					v := rr.Values()
					states[string(v[0])] = RunState{
						Finished: boolAt(v[1]), StartedAt: finiteAt(v[2]), Events: int8At(v[3]), FirstSeq: int8At(v[4]),
						LastSeq: int8At(v[5]), FirstID: int8At(v[6]), Ended: boolAt(v[7]), Now: timeAt(v[8]),
					}
				}
				_, err := rr.Close()
				return err
			},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read %d runs: %w", len(ids), err)
	}
	return states, nil
}

// maxGaps bounds how many gaps of one run are named.
const maxGaps = 100

// Gaps returns the seqs from 1 on that a run lacks below its last one, as
// ranges, at most the first hundred.
func (s *Source) Gaps(ctx context.Context, run string) (exporter.Ranges, error) {
	var gaps exporter.Ranges
	err := s.read(ctx, func(ctx context.Context, t *tx) error {
		return t.run(ctx, statement{
			sql: `SELECT v.before + 1, v.seq - 1 FROM (
				SELECT e.seq, lag(e.seq, 1, 0::int8) OVER (ORDER BY e.seq) AS before FROM ` + s.table.events + ` e WHERE e.run_id = $1::text) v
				WHERE v.seq - v.before > 1 ORDER BY v.seq LIMIT $2::int8`,
			values: [][]byte{[]byte(run), fmt.Append(nil, maxGaps)}, types: []uint32{pgtype.TextOID, pgtype.Int8OID},
			read: func(rr *pgconn.ResultReader) error {
				for rr.NextRow() {
					v := rr.Values()
					gaps = gaps.Append(exporter.Range{Lo: int8At(v[0]), Hi: int8At(v[1])})
				}
				_, err := rr.Close()
				return err
			},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the gaps of run %s: %w", run, err)
	}
	return gaps, nil
}

// Events returns those events of ids that are visible and that the filter
// keeps, and the rows that no sink can be given, all whole.
func (s *Source) Events(ctx context.Context, ids exporter.Ranges) (exporter.Batch, error) {
	if len(ids) == 0 {
		return exporter.Batch{}, nil
	}
	high := ids[len(ids)-1].Hi
	return s.Replay(ctx, exporter.Position{High: high, Holes: ids}, exporter.Position{High: high})
}
