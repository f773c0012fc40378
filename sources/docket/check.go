package docket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	exporter "github.com/docket-exporter/exporter"
)

// oldestServer is the least PostgreSQL version that Docket supports.
const oldestServer = 13

const grantsHint = "grant the exporter's role what `exporter migrate --print-grants` prints"

// Check looks at everything in a Docket database that reading its events
// relies on, and changes nothing. Its error says that the connection failed;
// whatever the server answers is a finding. What cannot be looked at because
// of an earlier failure is left out.
func Check(ctx context.Context, conn *pgx.Conn, schema string) ([]exporter.Finding, error) {
	c := checker{conn: conn, schema: schema}
	for _, step := range []func(context.Context) error{
		c.server, c.schemaUsage, c.tables, c.privileges, c.sequence, c.surroundings, c.lowestID, c.settings,
	} {
		if err := step(ctx); err != nil {
			found, err := refused(conn, err, "look at the Docket database")
			return append(c.found, found...), err
		}
		if c.blocked {
			break
		}
	}
	return c.found, nil
}

// refused makes a finding of a server's answer; any other error, and one that
// ended the connection, stays an error.
func refused(conn *pgx.Conn, err error, doing string) ([]exporter.Finding, error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || conn.IsClosed() {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	f := exporter.Finding{Level: exporter.LevelFail, Text: fmt.Sprintf("%s: %s (SQLSTATE %s)", doing, pg.Message, pg.Code)}
	if pg.Code == "42501" {
		f.Hint = grantsHint
	}
	return []exporter.Finding{f}, nil
}

// checker collects findings. A step that sets blocked ends the check.
type checker struct {
	conn    *pgx.Conn
	schema  string
	table   *table
	found   []exporter.Finding
	blocked bool
}

func (c *checker) add(level exporter.Level, text, hint string) {
	c.found = append(c.found, exporter.Finding{Level: level, Text: text, Hint: hint})
}

// block records a failure without which the rest cannot be looked at.
func (c *checker) block(text, hint string) {
	c.add(exporter.LevelFail, text, hint)
	c.blocked = true
}

func (c *checker) server(ctx context.Context) error {
	var number int
	var version string
	var recovery bool
	err := c.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery()`).
		Scan(&number, &version, &recovery)
	if err != nil {
		return err
	}
	switch {
	case number < oldestServer*10000:
		c.add(exporter.LevelFail, "the server is PostgreSQL "+version, fmt.Sprintf("upgrade it to PostgreSQL %d or newer", oldestServer))
	case recovery:
		c.add(exporter.LevelFail, "the server is in recovery (a standby), which does not show the transactions whose events are still to come",
			"let DOCKET_DATABASE_URL lead to the primary, for example with target_session_attrs=read-write")
	default:
		c.add(exporter.LevelOK, "the server is PostgreSQL "+version+" and a primary", "")
	}
	return nil
}

func (c *checker) schemaUsage(ctx context.Context) error {
	var usage bool
	err := c.conn.QueryRow(ctx, `SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1::text`, c.schema).Scan(&usage)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		c.block(fmt.Sprintf("there is no schema %q", c.schema), "set DOCKET_SCHEMA to the schema (prefix) of Docket's tables")
	case err != nil:
		return err
	case !usage:
		c.block(fmt.Sprintf("the role lacks USAGE on schema %s", quote(c.schema)), grantsHint)
	}
	return nil
}

func (c *checker) tables(ctx context.Context) error {
	t, err := findTable(ctx, c.conn, c.schema)
	var pause *exporter.PauseError
	switch {
	case errors.Is(err, ErrNoTable):
		c.block(fmt.Sprintf("schema %q has no docket_events and docket_runs", c.schema), "run Docket's migrations, or set DOCKET_SCHEMA")
		return nil
	case errors.As(err, &pause):
		text, hint, _ := strings.Cut(pause.Detail, "; ")
		c.block(text, hint)
		return nil
	case err != nil:
		return err
	}
	c.table = t
	c.add(exporter.LevelOK, fmt.Sprintf("%s and docket_runs have the columns that are read", t.events), "")
	switch {
	case slices.Contains(knownVersions, t.version):
		c.add(exporter.LevelOK, "Docket's schema has version "+t.version, "")
	case t.version == "":
		c.add(exporter.LevelWarn, t.runs+" carries no schema version as its comment", "make sure that Docket's own migrations made the tables")
	default:
		c.add(exporter.LevelWarn, fmt.Sprintf("Docket's schema has version %q, which this exporter does not know; its tables have the known shape", t.version),
			"look for a newer exporter")
	}
	return nil
}
