// Package migrations creates and checks the schema that holds the exporter's
// state: numbered SQL files, applied once each and never changed afterwards.
//
// Every name in the SQL is written with its schema, so nothing depends on
// search_path, and any schema name works.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed *.sql
var files embed.FS

// placeholder stands for the quoted schema name in the files. A plain word
// keeps them readable as SQL, which a template would not.
const placeholder = "@schema@"

const versionTable = "schema_version"

// Apply creates the schema if it is missing and brings it to the version this
// binary needs. It returns the versions before and after, which are equal when
// there was nothing to do. Two callers at once are safe: one waits for the
// other. conn must be a direct connection, since that wait is a session lock.
// A schema newer than this binary is a *VersionError.
func Apply(ctx context.Context, conn *pgx.Conn, schema string) (from, to int32, err error) {
	if err := createSchema(ctx, conn, schema); err != nil {
		return 0, 0, err
	}
	m, err := migrator(ctx, conn, schema)
	if err != nil {
		return 0, 0, err
	}
	to = int32(len(m.Migrations))
	if from, err = m.GetCurrentVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("read version of schema %q: %w", schema, err)
	}
	if from > to {
		return from, from, &VersionError{Schema: schema, Have: from, Want: to}
	}
	if err := m.Migrate(ctx); err != nil {
		return from, from, fmt.Errorf("migrate schema %q: %w", schema, err)
	}
	return from, to, nil
}

func migrator(ctx context.Context, conn *pgx.Conn, schema string) (*migrate.Migrator, error) {
	m, err := migrate.NewMigrator(ctx, conn, table(schema, versionTable))
	if err != nil {
		return nil, fmt.Errorf("prepare schema %q: %w", schema, err)
	}
	steps, err := statements(schema)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		m.AppendMigration(s.name, s.sql, "")
	}
	return m, nil
}

// createSchema looks before it creates: CREATE SCHEMA IF NOT EXISTS needs the
// right to create even when an administrator has made the schema for us, and
// fails when two run it at once.
func createSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)", schema).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for schema %q: %w", schema, err)
	}
	if exists {
		return nil
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+quote(schema))
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == "23505" || pgErr.Code == "42P06") {
		return nil // another migrate has just created it
	}
	if err != nil {
		return fmt.Errorf("create schema %q: %w", schema, err)
	}
	return nil
}

type statement struct{ name, sql string }

// statements returns the files in order with the schema filled in.
func statements(schema string) ([]statement, error) {
	names, err := migrate.FindMigrations(files)
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := make([]statement, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		out = append(out, statement{name, strings.ReplaceAll(string(text), placeholder, quote(schema))})
	}
	return out, nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func table(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }
