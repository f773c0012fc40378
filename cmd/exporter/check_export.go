package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/migrations"
)

const exportSubject = "export database"

// checkExport looks at the database with the exporter's own tables.
func checkExport(ctx context.Context, db DatabaseConfig, found *findings) {
	conn, err := connect(ctx, db.Export)
	if err != nil {
		found.failed(exportSubject, err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, look := range []func(context.Context, *pgx.Conn, DatabaseConfig) (string, error){
		exportServer, exportVersion, exportPrivileges,
	} {
		text, err := look(ctx, conn, db)
		if err != nil {
			found.failed(exportSubject, explainDatabase(err))
			return // the rest cannot be better
		}
		found.ok(exportSubject, text)
	}
}

func exportServer(ctx context.Context, conn *pgx.Conn, db DatabaseConfig) (string, error) {
	version, err := serverVersion(ctx, conn)
	if err != nil {
		return "", err
	}
	if err := takesWrites(ctx, conn, db.Export); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s runs PostgreSQL %d and takes writes", db.Export, version), nil
}

func exportVersion(ctx context.Context, conn *pgx.Conn, db DatabaseConfig) (string, error) {
	err := migrations.Check(ctx, conn, db.ExportSchema)
	if version, ok := errors.AsType[*migrations.VersionError](err); ok && version.Have == 0 {
		return "", withHint(err, grantsBeforeMigrate(ctx, conn, db.ExportSchema))
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("schema %q has the version that this exporter needs", db.ExportSchema), nil
}

// grantsBeforeMigrate says what is to be done before migrate can create the
// tables; "" when nothing is, or the server does not tell.
func grantsBeforeMigrate(ctx context.Context, conn *pgx.Conn, schema string) string {
	var may bool
	err := conn.QueryRow(ctx, `
		SELECT coalesce((SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n WHERE n.nspname = $1::text),
		                has_database_privilege(current_database(), 'CREATE'))`, schema).Scan(&may)
	if err != nil || may {
		return ""
	}
	return fmt.Sprintf("the user %s may not create them: before it runs migrate, let an administrator run what `exporter migrate --print-grants ROLE` prints", conn.Config().User)
}

// exportPrivileges asks the catalog what run will do to the tables.
func exportPrivileges(ctx context.Context, conn *pgx.Conn, db DatabaseConfig) (string, error) {
	missing, err := cursor.MissingPrivileges(ctx, conn, db.ExportSchema)
	if err != nil {
		return "", err
	}
	if len(missing) > 0 {
		return "", needsPerson(withHint(
			fmt.Errorf("the user %s lacks %s in schema %q", conn.Config().User, strings.Join(missing, ", "), db.ExportSchema),
			"make it the owner of schema and tables, see `exporter migrate --print-grants ROLE`"))
	}
	return "the user may write the exporter's tables", nil
}
