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

	exporter "github.com/docket-exporter/exporter"
)

// InspectedIDs is how many ids below a position an inspection looks at.
const InspectedIDs = 10_000

// Inspection is a source compared with what a consumer has read.
type Inspection struct {
	Present Seen
	Head    int64  // the highest id handed out
	Changed string // why the consumer would pause; empty when the source is the known one

	// Of the last InspectedIDs ids that are done:
	Gone  exporter.Ranges // read, and no rows now: lost, pruned or deleted
	Later []Neighbour     // rows that were inserted after the source was last read, so that they cannot have been; ascending
}

// Inspect compares the source with the one that the options tell. dead are ids
// that never were rows, since is when the source was last read.
func (s *Source) Inspect(ctx context.Context, at exporter.Position, dead exporter.Ranges, since time.Time) (Inspection, error) {
	var in Inspection
	err := s.read(ctx, func(ctx context.Context, t *tx) error {
		var around surroundings
		if err := t.run(ctx, s.table.surroundingsStatement(&around)); err != nil {
			return err
		}
		in.Present, in.Head = *around.seen(), around.last
		in.Present.Sequence = around.ownsSeq
		err := s.enter(around, at)
		if err == nil {
			_, err = s.verify(ctx, t, at.High, around.now)
		}
		if pause, ok := errors.AsType[*exporter.PauseError](err); ok && pause.Reason == exporter.PausedSourceChanged {
			in.Changed, err = strings.TrimSuffix(pause.Detail, next), nil
		}
		if err != nil {
			return err
		}
		return s.inspectRows(ctx, t, at, dead, since, &in)
	})
	if err != nil {
		return in, fmt.Errorf("compare the source: %w", err)
	}
	return in, nil
}

// inspectRows fills Gone and Later. Ids below the lowest row are left out of
// Gone: the pruner begins there.
func (s *Source) inspectRows(ctx context.Context, t *tx, at exporter.Position, dead exporter.Ranges, since time.Time, in *Inspection) error {
	done := exporter.Ranges{{Lo: at.High - InspectedIDs + 1, Hi: at.High}}.Minus(at.Holes).Minus(dead)
	var ids []int64
	err := t.run(ctx, statement{
		sql:    `SELECT id, run_id, seq, inserted_at FROM ` + s.table.events + ` WHERE id > $1::int8 AND id <= $2::int8 ORDER BY id`,
		values: [][]byte{strconv.AppendInt(nil, at.High-InspectedIDs, 10), strconv.AppendInt(nil, at.High, 10)},
		types:  []uint32{pgtype.Int8OID, pgtype.Int8OID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				n := Neighbour{exporter.Identity{EventID: int8At(v[0]), RunID: string(v[1]), Seq: int8At(v[2])}, finiteAt(v[3])}
				ids = append(ids, n.EventID)
				if n.InsertedAt.After(since) && at.Contains(n.EventID) {
					in.Later = append(in.Later, n)
				}
			}
			_, err := rr.Close()
			return err
		},
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	in.Gone = done.Intersect(exporter.Ranges{{Lo: ids[0], Hi: at.High}}).Minus(rangesOf(ids))
	return nil
}
