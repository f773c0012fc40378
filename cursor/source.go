package cursor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// BindSource records at its first call which Docket this schema belongs to:
// Docket's schema name and the system identifier of its server as
// pg_control_system() shows it. A later call with another schema or system
// identifier is a *exporter.PauseError with reason PausedSourceChanged that
// names both.
func (s *Store) BindSource(ctx context.Context, docketSchema string, systemID int64) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, s.sql(insertSource), docketSchema, systemID)
	if err != nil {
		return fmt.Errorf("record source: %w", err)
	}
	return s.CheckSource(ctx, docketSchema, systemID)
}

// CheckSource compares like BindSource and records nothing: a schema that
// belongs to no Docket yet is fine.
func (s *Store) CheckSource(ctx context.Context, docketSchema string, systemID int64) error {
	var boundSchema string
	var boundID int64
	err := s.pool.QueryRow(ctx, s.sql("SELECT docket_schema, system_identifier FROM {source}")).Scan(&boundSchema, &boundID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	switch {
	case boundSchema != docketSchema:
		return &exporter.PauseError{
			Reason: exporter.PausedSourceChanged,
			Detail: fmt.Sprintf("the exporter's schema belongs to Docket's schema %q, not to %q: set EXPORT_SCHEMA to another schema for it", boundSchema, docketSchema),
		}
	case boundID != systemID:
		return &exporter.PauseError{
			Reason: exporter.PausedSourceChanged,
			Detail: fmt.Sprintf("Docket's server has system identifier %d, the positions kept here belong to %d: it was restored or replaced, or DOCKET_DATABASE_URL points elsewhere", systemID, boundID),
		}
	}
	return nil
}

const insertSource = `
INSERT INTO {source} (docket_schema, system_identifier) VALUES ($1::text, $2::bigint)
ON CONFLICT (one) DO NOTHING`
