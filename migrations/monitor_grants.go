package migrations

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// MonitorGrants returns the least a role needs that only watches, as a script
// for an administrator: to read Docket's two tables and its id sequence, and
// the exporter's tables but for the payloads of dead letters. The tables must
// exist. Docket and the exporter's state may be in two databases; run each part
// in its own.
func MonitorGrants(docketSchema, exportSchema, role string) string {
	return strings.NewReplacer(
		"{docket}", quote(docketSchema),
		"{events}", table(docketSchema, "docket_events"),
		"{runs}", table(docketSchema, "docket_runs"),
		"{events_text}", literal(table(docketSchema, "docket_events")),
		"{role_text}", literal(role),
		"{export}", quote(exportSchema),
		"{export_text}", literal(exportSchema),
		"{role}", pgx.Identifier{role}.Sanitize(),
	).Replace(monitorGrants)
}

const monitorGrants = `-- The role that watches, on each cluster, if it does not exist yet.
-- CREATE ROLE {role} LOGIN;

-- In Docket's database.
GRANT USAGE ON SCHEMA {docket} TO {role};
GRANT SELECT ON {events}, {runs} TO {role};
DO $grant$
BEGIN
    EXECUTE format('GRANT SELECT ON SEQUENCE %s TO %I', pg_get_serial_sequence({events_text}, 'id'), {role_text});
END
$grant$;

-- In the database that holds the exporter's state, once more after each upgrade.
-- Payloads of dead letters stay out of reach.
GRANT USAGE ON SCHEMA {export} TO {role};
DO $grant$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT c.relname, string_agg(quote_ident(a.attname), ', ') AS columns
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
              WHERE c.relnamespace = quote_ident({export_text})::regnamespace AND c.relkind IN ('r', 'v')
                AND NOT (c.relname = 'dead_letters' AND a.attname IN ('payload', 'metadata'))
              GROUP BY c.relname
    LOOP
        EXECUTE format('GRANT SELECT (%s) ON %I.%I TO %I', t.columns, {export_text}, t.relname, {role_text});
    END LOOP;
END
$grant$;
`
