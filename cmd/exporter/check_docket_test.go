package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestCheckFindsWhatIsWrongInDocket(t *testing.T) {
	env, conn := installed(t)
	command(t, env, "check").want(t, exitOK)
	for _, x := range []struct{ spoil, mend, want string }{
		{
			"ALTER SEQUENCE docket_events_id_seq CACHE 20",
			"ALTER SEQUENCE docket_events_id_seq CACHE 1", "CACHE 1",
		},
		{
			"ALTER SEQUENCE docket_events_id_seq INCREMENT 10",
			"ALTER SEQUENCE docket_events_id_seq INCREMENT 1", "INCREMENT",
		},
		{
			"ALTER TABLE docket_events RENAME COLUMN step TO stage",
			"ALTER TABLE docket_events RENAME COLUMN stage TO step", "step is missing",
		},
	} {
		pgtest.Exec(t, conn, x.spoil)
		command(t, env, "check").want(t, exitPerson, "FAIL", x.want)
		pgtest.Exec(t, conn, x.mend)
	}
	command(t, env, "check").want(t, exitOK)
}

func TestCheckFindsMissingPrivileges(t *testing.T) {
	env, conn := installed(t)
	const role = "privileges_reader"
	least := asRole(t, conn, env["DOCKET_DATABASE_URL"], role)
	env["EXPORT_DATABASE_URL"], env["DOCKET_DATABASE_URL"] = env["DOCKET_DATABASE_URL"], least
	grants := command(t, env, "migrate", "--print-grants", role).stdout
	docket, _, _ := strings.Cut(grants, "-- In the database that holds")
	if _, err := conn.PgConn().Exec(t.Context(), docket).ReadAll(); err != nil {
		t.Fatal(err)
	}
	command(t, env, "check").want(t, exitOK)
	for _, object := range []string{"docket_runs", "docket_events", "docket_events_id_seq"} {
		pgtest.Exec(t, conn, "REVOKE SELECT ON "+object+" FROM "+role)
		command(t, env, "check").want(t, exitPerson, "FAIL", object)
		pgtest.Exec(t, conn, "GRANT SELECT ON "+object+" TO "+role)
	}
}

// A role that others give its rights needs all of them on our tables, too.
func TestCheckFindsMissingPrivilegesOnOurTables(t *testing.T) {
	env, conn := installed(t)
	const role = "privileges_owner"
	env["EXPORT_DATABASE_URL"] = asRole(t, conn, env["DOCKET_DATABASE_URL"], role)
	pgtest.Exec(t, conn, "GRANT USAGE ON SCHEMA docket_export TO "+role)
	pgtest.Exec(t, conn, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA docket_export TO "+role)
	command(t, env, "check").want(t, exitOK)
	for _, missing := range []string{"SELECT on audit", "INSERT on audit", "UPDATE on consumers", "DELETE on replicas"} {
		privilege, table, _ := strings.Cut(missing, " on ")
		pgtest.Exec(t, conn, fmt.Sprintf("REVOKE %s ON docket_export.%s FROM %s", privilege, table, role))
		command(t, env, "check").want(t, exitPerson, "FAIL", missing)
		pgtest.Exec(t, conn, fmt.Sprintf("GRANT %s ON docket_export.%s TO %s", privilege, table, role))
	}
}

func TestCheckOfTheWrongSchema(t *testing.T) {
	env, _ := installed(t)
	env["DOCKET_SCHEMA"] = "jobs"
	command(t, env, "check").want(t, exitUsage, "FAIL", `"jobs"`, "DOCKET_SCHEMA")
}

// Where the role may not make the schema, check names the grants first.
func TestCheckNamesTheGrantsBeforeMigrate(t *testing.T) {
	s := newSite(t)
	env := maps.Clone(s.env)
	env["DOCKET_DATABASE_URL"], env["EXPORT_SCHEMA"] = asRole(t, pgtest.Connect(t, s.dsn), s.dsn, "makes_no_schema"), "elsewhere"
	command(t, env, "check").want(t, exitPerson, "run `exporter migrate`", "makes_no_schema may not create them", "--print-grants")
	env["DOCKET_DATABASE_URL"] = s.dsn
	if r := command(t, env, "check"); strings.Contains(r.stdout, "may not create them") {
		t.Errorf("the owner is told of grants:\n%s", r.stdout)
	}
}
