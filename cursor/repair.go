package cursor

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// LeftOut returns the ids that a consumer was never to deliver: those below
// where it was created, and those that a person has moved it over and not back
// below. They are those below 1 for a consumer of which the audit does not tell.
func (s *Store) LeftOut(ctx context.Context, uid string) (exporter.Ranges, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	left := exporter.Ranges{{Lo: math.MinInt64, Hi: 0}}
	rows, err := s.pool.Query(ctx, s.sql(selectMoves), uid)
	if err != nil {
		return nil, fmt.Errorf("read where the consumer was moved: %w", err)
	}
	var from, to storedPosition
	_, err = pgx.ForEachRow(rows, []any{&from.high, &from.holes, &to.high, &to.holes}, func() error {
		before, err := from.value()
		if err != nil {
			return err
		}
		after, err := to.value()
		if err != nil {
			return err
		}
		left = left.Minus(before.Minus(after)).Union(after.Minus(before))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read where the consumer was moved: %w", err)
	}
	return left, nil
}

// selectMoves shows a creation as a move from 0.
const selectMoves = `
SELECT coalesce((a.before ->> 'high_id')::bigint, 0), coalesce(((a.before ->> 'holes')::int8multirange)::text, '{}'),
       (a.after ->> 'high_id')::bigint, ((a.after ->> 'holes')::int8multirange)::text
  FROM {audit} a
 WHERE a.command IN ('create', 'set', 'source adopt') AND a.after ->> 'uid' = $1::text
 ORDER BY a.id`

// Repairing writes into the audit that events are sent to the sink of a
// consumer once more; what tells which.
func (s *Store) Repairing(ctx context.Context, consumer string, r Reviewed, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("audit the repair of %s: %w", consumer, err)
	}
	_, err = s.exec(ctx, `INSERT INTO {audit} (who, command, consumer, reason, after)
		VALUES ($1::text, 'reconcile --repair', $2::text, $3::text, $4::text::jsonb)`, r.By, consumer, r.Reason, string(text))
	if err != nil {
		return fmt.Errorf("audit the repair of %s: %w", consumer, err)
	}
	return nil
}
