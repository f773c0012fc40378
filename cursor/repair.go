package cursor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// Origin returns the lowest position that a consumer was ever created at or set
// to: what lies below it was never to be delivered. It is the beginning for a
// consumer of which the audit does not tell.
func (s *Store) Origin(ctx context.Context, uid string) (exporter.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var p storedPosition
	err := s.pool.QueryRow(ctx, s.sql(selectOrigin), uid).Scan(&p.high, &p.holes)
	if errors.Is(err, pgx.ErrNoRows) {
		return exporter.Position{}, nil
	}
	if err != nil {
		return exporter.Position{}, fmt.Errorf("read where the consumer began: %w", err)
	}
	return p.value()
}

const selectOrigin = `
SELECT (a.after ->> 'high_id')::bigint, ((a.after ->> 'holes')::int8multirange)::text
  FROM {audit} a
 WHERE a.command IN ('create', 'set') AND a.after ->> 'uid' = $1::text
 ORDER BY 1, a.id LIMIT 1`

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
