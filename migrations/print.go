package migrations

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Latest is the version that this binary needs.
func Latest() int32 { return int32(len(embedded(""))) }

// embedded is statements of the files in the binary, where an error is a bug.
func embedded(schema string) []statement {
	steps, err := statements(schema)
	if err != nil {
		panic(err)
	}
	return steps
}

// SQL returns everything Apply would do on an empty database, as a script for
// people who run it themselves, best as the exporter's role, which must own
// the tables.
func SQL(schema string) string {
	steps := embedded(schema)
	var b strings.Builder
	b.WriteString(sqlHead)
	fmt.Fprintf(&b, "BEGIN;\n\nCREATE SCHEMA IF NOT EXISTS %s;\n", quote(schema))
	for _, s := range steps {
		fmt.Fprintf(&b, "\n-- %s\n\n%s", s.name, s.sql)
	}
	version := table(schema, versionTable)
	fmt.Fprintf(&b, "\nCREATE TABLE %s (version int4 NOT NULL);\nINSERT INTO %s VALUES (%d);\n\nCOMMIT;\n", version, version, len(steps))
	return b.String()
}

const sqlHead = `-- Run this in the database that holds the exporter's state, as the role of the
-- exporter (psql -U, or SET ROLE first): it must own schema and tables. After
-- another role has run it, hand them over: see exporter migrate --print-grants.

`

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
		"{hand_over}", handOver(exportSchema, pgx.Identifier{role}.Sanitize()),
	).Replace(grants)
}

// relation finds what the files create that has an owner of its own; sequences
// and indexes follow their table.
var relation = regexp.MustCompile(`(?m)^CREATE (?:TABLE|VIEW) "@schema@"\.(\w+)`)

// handOver returns a commented statement for each table and view.
func handOver(schema, quotedRole string) string {
	names := []string{versionTable}
	for _, s := range embedded(placeholder) {
		for _, m := range relation.FindAllStringSubmatch(s.sql, -1) {
			names = append(names, m[1])
		}
	}
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "-- ALTER TABLE %s OWNER TO %s;\n", table(schema, name), quotedRole)
	}
	return b.String()
}

const grants = `-- The role of the exporter, on each cluster, if it does not exist yet. It needs
-- a way to log in: a password set with \password in psql, or a line in pg_hba.conf.
-- CREATE ROLE {role} LOGIN;

-- In Docket's database.
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

-- Where schema and tables exist already and another role owns them, hand them
-- over (views too are altered as tables):
-- ALTER SCHEMA {export} OWNER TO {role};
{hand_over}`

// literal quotes s as an SQL string that means the same under either setting
// of standard_conforming_strings.
func literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}
