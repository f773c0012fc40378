package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier is a connection or a pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// VersionError says that the schema is not at the version this binary needs,
// and what to run.
type VersionError struct {
	Schema     string
	Have, Want int32 // Have is 0 when the schema or its tables are missing
}

func (e *VersionError) Error() string {
	switch {
	case e.Have == 0:
		return fmt.Sprintf("schema %q does not hold the exporter's tables yet: run `exporter migrate`", e.Schema)
	case e.Have < e.Want:
		return fmt.Sprintf("schema %q is at version %d and this exporter needs %d: run `exporter migrate`", e.Schema, e.Have, e.Want)
	default:
		return fmt.Sprintf("schema %q is at version %d and this exporter knows only %d: use a newer exporter", e.Schema, e.Have, e.Want)
	}
}

// Check returns nil when the schema is at the version this binary needs, and a
// *VersionError when it is at another or missing. It only reads, and works
// through a pooler.
func Check(ctx context.Context, db Querier, schema string) error {
	steps, err := statements(schema)
	if err != nil {
		return err
	}
	bad := &VersionError{Schema: schema, Want: int32(len(steps))}
	err = db.QueryRow(ctx, "SELECT version FROM "+table(schema, versionTable)).Scan(&bad.Have)
	if missing(err) {
		return bad
	}
	if err != nil {
		return fmt.Errorf("read version of schema %q: %w", schema, err)
	}
	if bad.Have != bad.Want {
		return bad
	}
	return nil
}

// missing reports whether the version is absent: no schema, no table, no row.
func missing(err error) bool {
	if errors.Is(err, pgx.ErrNoRows) {
		return true
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "42P01" || pgErr.Code == "3F000")
}
