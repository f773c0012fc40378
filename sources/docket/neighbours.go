package docket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
)

// Neighbour is an event beside a position.
type Neighbour struct {
	exporter.Identity
	InsertedAt time.Time
}

// Neighbours returns the visible events on either side of a position's High:
// the one with the highest id that is done, and the one with the lowest id
// above it. Either is nil where there is none.
func Neighbours(ctx context.Context, pool *pgxpool.Pool, schema string, at exporter.Position) (done, next *Neighbour, err error) {
	events := quote(schema) + ".docket_events"
	los, his := make([]int64, len(at.Holes)), make([]int64, len(at.Holes))
	for i, r := range at.Holes {
		los[i], his[i] = r.Lo, r.Hi
	}
	done, err = neighbour(ctx, pool, `SELECT id, run_id, seq, inserted_at FROM `+events+` WHERE id <= $1
		AND NOT EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS h(lo, hi) WHERE id BETWEEN lo AND hi)
		ORDER BY id DESC LIMIT 1`, at.High, los, his)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s around %d: %w", events, at.High, err)
	}
	next, err = neighbour(ctx, pool, `SELECT id, run_id, seq, inserted_at FROM `+events+` WHERE id > $1 ORDER BY id LIMIT 1`, at.High)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s around %d: %w", events, at.High, err)
	}
	return done, next, nil
}

func neighbour(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) (*Neighbour, error) {
	var n Neighbour
	err := pool.QueryRow(ctx, sql, args...).Scan(&n.EventID, &n.RunID, &n.Seq, &n.InsertedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &n, err
}
