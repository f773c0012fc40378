package migrations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// strange needs quoting and holds what could be taken for a name's end.
const strange = `we"ird.Schema @schema@ x`

// latest is the version that Apply leads to.
func latest(t *testing.T) int32 {
	t.Helper()
	_, to, err := migrations.Apply(t.Context(), pgtest.Connect(t, pgtest.Database(t)), "docket_export")
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func table(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }

func TestApply(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"docket_export", strange} {
		conn := pgtest.Connect(t, pgtest.Database(t))
		var bad *migrations.VersionError
		if err := migrations.Check(t.Context(), conn, schema); !errors.As(err, &bad) || bad.Have != 0 {
			t.Errorf("check before: %v", err)
		}
		from, to, err := migrations.Apply(t.Context(), conn, schema)
		if err != nil || from != 0 || to < 1 {
			t.Fatalf("apply to %q: %d to %d, %v", schema, from, to, err)
		}
		if err := migrations.Check(t.Context(), conn, schema); err != nil {
			t.Errorf("check after: %v", err)
		}
		pgtest.Exec(t, conn, "INSERT INTO "+table(schema, "consumers")+" (name, high_id) VALUES ('feed', 5)")
		again, to2, err := migrations.Apply(t.Context(), conn, schema)
		if err != nil || again != to || to2 != to {
			t.Errorf("apply again: %d to %d, %v", again, to2, err)
		}
		if n := pgtest.Value[int](t, conn, "SELECT count(*)::int FROM "+table(schema, "export_status")); n != 1 {
			t.Errorf("%d rows after applying again, want 1", n)
		}
		uncommented := pgtest.Value[string](t, conn, `SELECT coalesce(string_agg(relname, ', '), '') FROM pg_class
			WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind IN ('r', 'v')
			  AND obj_description(oid, 'pg_class') IS NULL AND relname <> 'schema_version'`, schema)
		if uncommented != "" {
			t.Errorf("without a comment: %s", uncommented)
		}
		outside := pgtest.Value[int](t, conn, "SELECT count(*)::int FROM pg_class WHERE relnamespace = 'public'::regnamespace")
		if outside != 0 {
			t.Errorf("%d relations were made in public", outside)
		}
	}
}

// Of two at once one waits, and both succeed.
func TestApplyTwiceAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	const callers = 4
	results := make(chan error, callers)
	for range callers {
		conn := pgtest.Connect(t, dsn)
		go func() {
			_, _, err := migrations.Apply(t.Context(), conn, strange)
			results <- err
		}()
	}
	for range callers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := migrations.Check(t.Context(), pgtest.Connect(t, dsn), strange); err != nil {
		t.Error(err)
	}
}

func TestVersionMessages(t *testing.T) {
	t.Parallel()
	want := latest(t)
	conn := pgtest.Connect(t, pgtest.Database(t))
	check := func(have int32, says string) {
		t.Helper()
		err := migrations.Check(t.Context(), conn, "docket_export")
		var bad *migrations.VersionError
		if !errors.As(err, &bad) || bad.Have != have || bad.Want != want || !strings.Contains(err.Error(), says) {
			t.Errorf("check says %v, want version %d and %q", err, have, says)
		}
	}
	check(0, "run `exporter migrate`")
	pgtest.Exec(t, conn, "CREATE SCHEMA docket_export")
	check(0, "does not hold the exporter's tables yet")
	if _, _, err := migrations.Apply(t.Context(), conn, "docket_export"); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "UPDATE docket_export.schema_version SET version = version + 1")
	check(want+1, "use a newer exporter")
	from, to, err := migrations.Apply(t.Context(), conn, "docket_export")
	var bad *migrations.VersionError
	if !errors.As(err, &bad) || from != want+1 || to != want+1 {
		t.Errorf("apply to a newer schema: %d to %d, %v", from, to, err)
	}
	older := migrations.VersionError{Schema: "docket_export", Have: 1, Want: 2}
	if !strings.Contains(older.Error(), "is at version 1 and this exporter needs 2: run `exporter migrate`") {
		t.Errorf("older says %v", &older)
	}
}

// The printed script makes what Apply makes.
func TestSQL(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, pgtest.Database(t))
	pgtest.Exec(t, conn, migrations.SQL(strange))
	if err := migrations.Check(t.Context(), conn, strange); err != nil {
		t.Error(err)
	}
	from, to, err := migrations.Apply(t.Context(), conn, strange)
	if err != nil || from != to {
		t.Errorf("apply after the script: %d to %d, %v", from, to, err)
	}
}

// With the printed grants, and nothing else, a role can migrate, keep its
// state, and read Docket's tables and sequence, but not write them.
func TestGrants(t *testing.T) {
	t.Parallel()
	role := `ex"p\orter ` + rand.Text()
	quoted := pgx.Identifier{role}.Sanitize()
	server := pgtest.Connect(t, pgtest.Database(t))
	pgtest.Exec(t, server, "CREATE ROLE "+quoted)
	t.Cleanup(func() { // runs when the database with the grants is gone
		if _, err := server.Exec(context.Background(), "DROP ROLE "+quoted); err != nil {
			t.Error(err)
		}
	})
	conn := pgtest.Connect(t, pgtest.Database(t))
	events, runs := table(`d'o"cket`, "docket_events"), table(`d'o"cket`, "docket_runs")
	pgtest.Exec(t, conn, `CREATE SCHEMA "d'o""cket"; CREATE TABLE `+events+` (id bigserial); CREATE TABLE `+runs+` (run_id text)`)
	pgtest.Exec(t, conn, migrations.Grants(`d'o"cket`, strange, role))
	pgtest.Exec(t, conn, "SET ROLE "+quoted)
	pgtest.Exec(t, conn, "SELECT count(*) FROM "+events+", "+runs)
	pgtest.Exec(t, conn, `SELECT last_value FROM "d'o""cket".docket_events_id_seq`)
	for _, sql := range []string{"DELETE FROM " + events, "INSERT INTO " + runs + " VALUES ('r')", `SELECT nextval('"d''o""cket".docket_events_id_seq')`} {
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s went through", sql)
		}
	}
	// The session's reset at the end of a migration also ends SET ROLE, so the
	// role is the connection's own.
	config := conn.Config().Copy()
	config.RuntimeParams["role"] = role
	own, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close(t.Context())
	if _, _, err := migrations.Apply(t.Context(), own, strange); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, own, "INSERT INTO "+table(strange, "consumers")+" (name, high_id) VALUES ('feed', 0)")
	pgtest.Exec(t, own, "SELECT * FROM "+table(strange, "export_status"))
}
