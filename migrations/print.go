package migrations

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// SQL returns everything Apply would do on an empty database, as a script for
// people who run it themselves. The files are part of the binary, so an error
// in them is a bug and panics.
func SQL(schema string) string {
	steps, err := statements(schema)
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "BEGIN;\n\nCREATE SCHEMA IF NOT EXISTS %s;\n", quote(schema))
	for _, s := range steps {
		fmt.Fprintf(&b, "\n-- %s\n\n%s", s.name, s.sql)
	}
	version := table(schema, versionTable)
	fmt.Fprintf(&b, "\nCREATE TABLE %s (version int4 NOT NULL);\nINSERT INTO %s VALUES (%d);\n\nCOMMIT;\n", version, version, len(steps))
	return b.String()
}

// Grants returns the least an exporter's role needs, as a script for an
// administrator: to read Docket's two tables and its id sequence, and to own
// the exporter's schema. Docket and the exporter's state may be in two databases; run
// each part in its own.
func Grants(docketSchema, exportSchema, role string) string {
	return strings.NewReplacer(
		"{docket}", quote(docketSchema),
		"{events}", table(docketSchema, "docket_events"),
		"{runs}", table(docketSchema, "docket_runs"),
		"{events_text}", literal(table(docketSchema, "docket_events")),
		"{role_text}", literal(role),
		"{export}", quote(exportSchema),
		"{role}", pgx.Identifier{role}.Sanitize(),
	).Replace(grants)
}

const grants = `-- In Docket's database.
GRANT USAGE ON SCHEMA {docket} TO {role};
GRANT SELECT ON {events}, {runs} TO {role};
DO $grant$
BEGIN
    EXECUTE format('GRANT SELECT ON SEQUENCE %s TO %I', pg_get_serial_sequence({events_text}, 'id'), {role_text});
END
$grant$;

-- Optional: shows since when a transaction keeps ids open, and that an idle one draws no more of them.
-- GRANT pg_read_all_stats TO {role};

-- In the database that holds the exporter's state.
CREATE SCHEMA IF NOT EXISTS {export} AUTHORIZATION {role};
`

// literal quotes s as an SQL string that means the same under either setting
// of standard_conforming_strings.
func literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}
