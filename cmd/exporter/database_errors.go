package main

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/docket-exporter/exporter/migrations"
)

// explainDatabase adds to an error of a statement what to do about it, and
// marks what no further attempt will mend.
func explainDatabase(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*migrations.VersionError](err); ok {
		return needsPerson(err)
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch e.Code {
	case "42501": // insufficient_privilege
		return needsPerson(withHint(err, "let an administrator run what `exporter migrate --print-grants ROLE` prints, or --print-monitor-grants for a role that only watches"))
	case readOnlyTransaction:
		return needsPerson(withHint(err, "the server is a standby, or default_transaction_read_only is on; `exporter check` says which"))
	case "42P01", "42703", "3F000": // undefined table, column or schema
		return needsPerson(withHint(err, "run `exporter check` to see what is missing"))
	}
	return err
}
