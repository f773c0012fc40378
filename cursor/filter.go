package cursor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// Filter is which events a consumer wants, as its owner was configured: lists
// of patterns as they are written in the configuration, empty for all.
type Filter struct {
	Types   []string `json:"types,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	Graphs  []string `json:"graphs,omitempty"`
	Runs    []string `json:"runs,omitempty"` // only of a backfill
}

// All reports whether the consumer wants every event.
func (f *Filter) All() bool { return len(f.Types)+len(f.Tenants)+len(f.Graphs)+len(f.Runs) == 0 }

// SetFilter tells everybody which events the owner delivers, so that any
// process can tell how many are left. It returns exporter.ErrFenced when the
// consumer has another owner.
func (c *Cursor) SetFilter(ctx context.Context, f Filter) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("note the filter of %s: %w", c.name, err)
	}
	var owned bool
	err = c.store.pool.QueryRow(ctx, c.store.sql(setFilter), c.uid, c.epoch, c.owner, string(text)).Scan(&owned)
	resetReadOnly(c.store.pool, err)
	if err == nil && !owned {
		err = exporter.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("note the filter of %s: %w", c.name, err)
	}
	return nil
}

const setFilter = `
WITH mine AS (
    SELECT uid FROM {consumers} WHERE uid = $1::text::uuid AND epoch = $2::bigint AND owner = $3::text
), changed AS (
    UPDATE {consumers} c SET filter = $4::text::jsonb
     WHERE uid = $1::text::uuid AND epoch = $2::bigint AND owner = $3::text AND filter IS DISTINCT FROM $4::text::jsonb)
SELECT EXISTS (SELECT FROM mine)`

// Scope is what of the source a consumer wants.
type Scope struct {
	Filter   *Filter            // nil when no owner has told it yet
	Until    *exporter.Position // where a backfill ends; nil when it does not
	Finished *time.Time         // when a backfill ended; nil when it has not

	LostEvents int64 // the most events in losses that no person has accepted
}

// Scopes returns the scope of every consumer by its uid.
func (s *Store) Scopes(ctx context.Context) (map[string]Scope, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectScopes))
	if err != nil {
		return nil, fmt.Errorf("read scopes of consumers: %w", err)
	}
	scopes := map[string]Scope{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		uid, scope, err := scanScope(row)
		scopes[uid] = scope
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("read scopes of consumers: %w", err)
	}
	return scopes, nil
}

const selectScopes = `
SELECT c.uid::text, c.filter::text, c.until_high, c.until_holes::text, c.finished_at,
       (SELECT coalesce(sum(l.events), 0)::bigint FROM {losses} l WHERE l.consumer_uid = c.uid AND l.accepted_at IS NULL)
  FROM {consumers} c`

func scanScope(row pgx.CollectableRow) (uid string, s Scope, err error) {
	var filter, holes *string
	var high *int64
	err = row.Scan(&uid, &filter, &high, &holes, &s.Finished, &s.LostEvents)
	if err == nil && filter != nil {
		err = json.Unmarshal([]byte(*filter), &s.Filter)
	}
	if err == nil && high != nil && holes != nil {
		var until exporter.Position
		until, err = storedPosition{*high, *holes}.value()
		s.Until = &until
	}
	return uid, s, err
}
