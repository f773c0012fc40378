package cursor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// NameChange is a consumer that takes a name, or gives one up, or both.
type NameChange struct {
	UID, Kind     string
	Before, After string          // names; empty before it was made and after it was removed
	Spec          json.RawMessage // what a backfill was asked for; nil for a live consumer
	Ended         bool            // of a present backfill: it is finished, and no process has it
}

// NameChanges returns which consumer has had which name, from the oldest change
// on: all that the audit tells, and then each present consumer, which takes the
// name that it has.
func (s *Store) NameChanges(ctx context.Context) ([]NameChange, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectNameChanges))
	if err != nil {
		return nil, fmt.Errorf("read names of consumers: %w", err)
	}
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (NameChange, error) {
		var c NameChange
		var spec *string
		err := row.Scan(&c.UID, &c.Kind, &c.Before, &c.After, &spec, &c.Ended)
		if spec != nil {
			c.Spec = json.RawMessage(*spec)
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read names of consumers: %w", err)
	}
	return changes, nil
}

const selectNameChanges = `
SELECT uid, kind, before, after, spec, ended FROM (
    SELECT a.id, coalesce(a.after, a.before) ->> 'uid' AS uid, coalesce(a.after, a.before) ->> 'kind' AS kind,
           coalesce(a.before ->> 'name', '') AS before, coalesce(a.after ->> 'name', '') AS after,
           nullif(coalesce(a.after, a.before) -> 'spec', 'null')::text AS spec, false AS ended
      FROM {audit} a WHERE a.command IN ('create', 'rename', 'remove')
    UNION ALL
    SELECT NULL, c.uid::text, c.kind, '', c.name, c.spec::text, c.finished_at IS NOT NULL AND ` + notOwned + ` FROM {consumers} c) AS changes
 ORDER BY id NULLS LAST, uid`
