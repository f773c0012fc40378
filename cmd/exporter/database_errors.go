package main

import (
	"errors"
	"fmt"

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
		return needsPerson(withHint(err, "let an administrator run what `exporter migrate --print-grants ROLE` prints"))
	case "25006": // read_only_sql_transaction
		return needsPerson(withHint(err, "the server takes no writes: connect to the primary, for example with target_session_attrs=read-write in the URL"))
	case "42P01", "42703", "3F000": // undefined table, column or schema
		return needsPerson(withHint(err, "run `exporter check` to see what is missing"))
	}
	return err
}

// leastVersion is the oldest PostgreSQL that has multiranges.
const leastVersion = 14

func oldServer(version int) error {
	return needsPerson(fmt.Errorf("the export database runs PostgreSQL %d; the exporter's tables need %d or newer: set EXPORT_DATABASE_URL to such a server", version, leastVersion))
}
