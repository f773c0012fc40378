package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/migrations"
)

const migrateHelp = `Create the schema of the exporter's own tables, or bring it to the version that
this exporter needs. Running it again changes nothing. It needs a direct
connection: EXPORT_DIRECT_URL, where EXPORT_DATABASE_URL goes through a pooler.

To let an administrator do it, print the SQL instead; printing connects to
nothing.`

func newMigrateCommand(p *process) *cobra.Command {
	var printSQL, asJSON bool
	var role string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the exporter's tables",
		Long:  migrateHelp,
		Example: `  exporter migrate
  exporter migrate --print-sql | psql "$ADMIN_URL"
  exporter migrate --print-grants exporter`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printSQL || role != "" {
				return printMigration(p, printSQL, role)
			}
			return migrate(cmd.Context(), p, asJSON)
		},
	}
	cmd.Flags().BoolVar(&printSQL, "print-sql", false, "print the SQL that creates the tables, and do nothing")
	cmd.Flags().StringVar(&role, "print-grants", "", "print the least privileges for this `ROLE`, and do nothing")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printMigration(p *process, printSQL bool, role string) error {
	c, err := loadSchemas(p.env)
	if err != nil {
		return err
	}
	if role != "" {
		if _, err := io.WriteString(p.stdout, migrations.Grants(c.DocketSchema, c.ExportSchema, role)); err != nil {
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
	if err := checkServer(ctx, conn); err != nil {
		return err
	}
	from, to, err := migrations.Apply(ctx, conn, db.ExportSchema)
	if err != nil {
		return explainDatabase(err)
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

// checkServer refuses servers that cannot hold the exporter's tables.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var number int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&number); err != nil {
		return fmt.Errorf("read server version: %w", err)
	}
	if number/10000 < leastVersion {
		return oldServer(number / 10000)
	}
	return nil
}
