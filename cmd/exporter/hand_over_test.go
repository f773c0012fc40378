package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// What an administrator has created can be handed over with the lines that the
// printed grants hold for it.
func TestTablesCanBeHandedOver(t *testing.T) {
	env, conn := installed(t) // as the administrator
	const role = "heir_of_tables"
	dsn := env["DOCKET_DATABASE_URL"]
	env["DOCKET_DATABASE_URL"] = asRole(t, conn, dsn, role)
	printed := command(t, env, "migrate", "--print-grants", role).stdout
	if !strings.Contains(printed, `-- CREATE ROLE "heir_of_tables" LOGIN`) {
		t.Errorf("no word of making the role:\n%s", printed)
	}
	run := func(sql string) {
		t.Helper()
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	run(printed)
	command(t, env, "check").want(t, exitPerson, "FAIL")
	lines := regexp.MustCompile(`(?m)^-- (ALTER .*)$`).FindAllStringSubmatch(printed, -1)
	for _, l := range lines {
		run(l[1])
	}
	command(t, env, "check").want(t, exitOK)
	foreign := pgtest.Value[int](t, conn, `SELECT count(*)::int FROM pg_class
		WHERE relnamespace = 'docket_export'::regnamespace AND relkind <> 'i' AND relowner <> $1::regrole`, role)
	if foreign != 0 {
		t.Errorf("%d relations have another owner still", foreign)
	}
}
