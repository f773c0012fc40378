package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/migrations"
)

const migrateHelp = `Create the schema of the exporter's own tables, or bring it to the version that
this exporter needs. Running it again changes nothing. It needs a direct
connection: EXPORT_DIRECT_URL, where EXPORT_DATABASE_URL goes through a pooler.
Both must lead to the same database.

To let an administrator do it, print the SQL instead and run it as the role of
the exporter, or hand the tables over to that role afterwards: --print-grants
says how. Printing connects to nothing.`

func newMigrateCommand(p *process) *cobra.Command {
	var printSQL, asJSON bool
	var role, monitor string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the exporter's tables",
		Long:  migrateHelp,
		Example: `  exporter migrate
  exporter migrate --print-sql | psql "$EXPORTER_URL"
  exporter migrate --print-grants exporter
  exporter migrate --print-monitor-grants watcher`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printSQL || role != "" || monitor != "" {
				return printMigration(p, printSQL, role, monitor)
			}
			return migrate(cmd.Context(), p, asJSON)
		},
	}
	cmd.Flags().BoolVar(&printSQL, "print-sql", false, "print the SQL that creates the tables, and do nothing")
	cmd.Flags().StringVar(&role, "print-grants", "", "print the least privileges for this `ROLE`, and do nothing")
	cmd.Flags().StringVar(&monitor, "print-monitor-grants", "", "print what this `ROLE` needs for exporter monitor and status, and do nothing")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printMigration(p *process, printSQL bool, role, monitor string) error {
	c, err := loadSchemas(p.env)
	if err != nil {
		return err
	}
	for _, name := range []string{role, monitor} {
		if strings.ContainsAny(name, "\r\n") {
			return usage(fmt.Errorf("the role %q has more than one line; write its name", name))
		}
	}
	if role != "" {
		if _, err := io.WriteString(p.stdout, migrations.Grants(c.DocketSchema, c.ExportSchema, role)); err != nil {
			return err
		}
	}
	if monitor != "" {
		if _, err := io.WriteString(p.stdout, migrations.MonitorGrants(c.DocketSchema, c.ExportSchema, monitor)); err != nil {
			return err
		}
	}
	if printSQL {
		_, err = io.WriteString(p.stdout, migrations.SQL(c.ExportSchema))
	}
	return err
}

// migrated is the result of migrate.
type migrated struct {
	Schema string `json:"schema"`
	From   int32  `json:"from"`
	To     int32  `json:"to"`
}

func migrate(ctx context.Context, p *process, asJSON bool) error {
	db, _, err := loadDatabase(p.env)
	if err != nil {
		return err
	}
	conn, err := connect(ctx, db.ExportDirect)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	from, to, err := migrateWith(ctx, p, conn, db)
	if err != nil {
		return err
	}
	m := migrated{db.ExportSchema, from, to}
	if asJSON {
		return writeJSON(p.stdout, m)
	}
	if from == to {
		_, err = fmt.Fprintf(p.stdout, "schema %q is at version %d, nothing to do\n", m.Schema, to)
	} else {
		_, err = fmt.Fprintf(p.stdout, "schema %q went from version %d to %d\n", m.Schema, from, to)
	}
	return err
}

// migrateWith brings the tables up to date. A server that takes no writes is
// fine while there is nothing to do.
func migrateWith(ctx context.Context, p *process, conn *pgx.Conn, db DatabaseConfig) (from, to int32, err error) {
	if !db.ExportDirect.same(db.Export) {
		err := sameDatabase(ctx, conn, db.ExportDirect, db.Export)
		if exitCode(err) == exitUsage {
			return 0, 0, err
		}
		if err != nil { // an administrator's machine may reach only one of them
			fmt.Fprintf(p.stderr, "not compared with %s: %v\n", db.Export.variable, err)
		}
	}
	if _, err := serverVersion(ctx, conn); err != nil {
		return 0, 0, err
	}
	if migrations.Check(ctx, conn, db.ExportSchema) == nil {
		return migrations.Latest(), migrations.Latest(), nil
	}
	if err := takesWrites(ctx, conn, db.ExportDirect); err != nil {
		return 0, 0, err
	}
	from, to, err = migrations.Apply(ctx, conn, db.ExportSchema)
	return from, to, explainWrite(ctx, conn, db.ExportDirect, err)
}
