package docket_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/retention"
	"github.com/docket-exporter/exporter/sources/docket"
)

func check(t *testing.T, dsn, schema string) []exporter.Finding {
	t.Helper()
	found, err := docket.Check(t.Context(), pgtest.Connect(t, dsn), schema)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantFinding looks for one finding of the level with the text and the hint,
// and for none that is worse.
func wantFinding(t *testing.T, found []exporter.Finding, level exporter.Level, text, hint string) {
	t.Helper()
	matched := false
	for _, f := range found {
		matched = matched || f.Level == level && strings.Contains(f.Text, text) && strings.Contains(f.Hint, hint)
		if f.Level == exporter.LevelFail && level != exporter.LevelFail {
			t.Errorf("unexpected failure: %s", f.Text)
		}
	}
	if !matched {
		t.Errorf("no finding %q with %q and hint %q in\n%s", level, text, hint, list(found))
	}
}

func list(found []exporter.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s: %s [%s]\n", f.Level, f.Text, f.Hint)
	}
	return b.String()
}

func TestCheckOfAGoodDatabase(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	s.insert("r1", 1)
	found := check(t, d.dsn, "public")
	for _, f := range found {
		if f.Level != exporter.LevelOK {
			t.Errorf("%s: %s", f.Level, f.Text)
		}
	}
	for _, text := range []string{
		"PostgreSQL", "have the columns", "version 2", "may read the tables", "one by one", "it is at 1", "since when", "synchronous_commit is on",
	} {
		wantFinding(t, found, exporter.LevelOK, text, "")
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	s := open(t, docket.Options{}).session()
	s.runs("r1")
	s.insert("r1", 1)
	for name, c := range map[string]struct {
		sql        string
		level      exporter.Level
		text, hint string
	}{
		"cache": {
			"ALTER SEQUENCE docket_events_id_seq CACHE 20", exporter.LevelFail,
			"CACHE 20", "ALTER SEQUENCE public.docket_events_id_seq CACHE 1;",
		},
		"increment and cycle": {
			`DO $$ BEGIN ALTER SEQUENCE docket_events_id_seq INCREMENT BY 2 CYCLE; ALTER SEQUENCE docket_events_id_seq RENAME TO "Ids of events"; END $$`,
			exporter.LevelFail, "INCREMENT 2, CYCLE", `ALTER SEQUENCE public."Ids of events" INCREMENT BY 1 NO CYCLE;`,
		},
		"no owned sequence": {"ALTER SEQUENCE docket_events_id_seq OWNED BY NONE", exporter.LevelFail, "owns no sequence", "ALTER SEQUENCE"},
		"missing column":    {"ALTER TABLE docket_events DROP COLUMN step", exporter.LevelFail, "step is missing", "exporter that knows"},
		"column of a type":  {"ALTER TABLE docket_events ALTER step TYPE bigint", exporter.LevelFail, "step is bigint, want integer", "exporter that knows"},
		"no tables":         {"DROP TABLE docket_events", exporter.LevelFail, "has no docket_events", "DOCKET_SCHEMA"},
		"no schema":         {"ALTER SCHEMA public RENAME TO other", exporter.LevelFail, `no schema "public"`, "DOCKET_SCHEMA"},
		"newer version":     {"COMMENT ON TABLE docket_runs IS '3'", exporter.LevelWarn, `version "3"`, "newer exporter"},
		"no version":        {"COMMENT ON TABLE docket_runs IS NULL", exporter.LevelWarn, "no schema version", "migrations"},
		"explicit id":       {"UPDATE docket_events SET id = 1000", exporter.LevelFail, "holds id 1000, but its sequence public.docket_events_id_seq is at 1", "setval('public.docket_events_id_seq', 1000)"},
		"id below 1":        {"UPDATE docket_events SET id = -3", exporter.LevelFail, "holds id -3", "who inserted"},
	} {
		t.Run(name, func(t *testing.T) {
			s.do("BEGIN")
			defer s.do("ROLLBACK")
			s.do(c.sql)
			found, err := docket.Check(t.Context(), s.Conn, "public")
			if err != nil {
				t.Fatal(err)
			}
			wantFinding(t, found, c.level, c.text, c.hint)
		})
	}
}

func TestCheckWarnsOfAsynchronousCommits(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.do("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
	wantFinding(t, check(t, d.dsn, "public"), exporter.LevelWarn, "synchronous_commit is off", "set synchronous_commit")
	s.do("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$")
	role, _ := roleOn(t, d)
	s.do(`DO $$ BEGIN EXECUTE format('ALTER ROLE ` + role + ` IN DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	wantFinding(t, check(t, d.dsn, "public"), exporter.LevelWarn, "synchronous_commit is off", "set synchronous_commit")
}

// roleOn makes a role without any privilege and returns its name and its DSN.
func roleOn(t *testing.T, d *database) (role, dsn string) {
	t.Helper()
	role = "reader_" + strings.ToLower(rand.Text())
	s := &session{t, pgtest.Connect(t, d.dsn)}
	s.do("CREATE ROLE " + role + " LOGIN PASSWORD 'reader'")
	s.do("REVOKE ALL ON SCHEMA public FROM PUBLIC")
	t.Cleanup(func() { // before the session and the database go
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := s.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
				t.Error(err)
			}
		}
	})
	u, err := url.Parse(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "reader")
	return role, u.String()
}

// Each grant brings the next missing one to light; the last makes it good.
func TestCheckOfPrivileges(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	role, dsn := roleOn(t, d)
	const grants = "exporter migrate --print-grants"
	for _, step := range []struct {
		lacks string
		grant []string
	}{
		{"USAGE on schema", []string{"GRANT USAGE ON SCHEMA public TO "}},
		{`"public".docket_events, "public".docket_runs, sequence`, []string{"GRANT SELECT ON docket_events TO "}},
		{`SELECT on "public".docket_runs, sequence`, []string{"GRANT SELECT (run_id, tenant_id, graph_id, graph_hash, status, started_at, updated_at) ON docket_runs TO "}},
		{"SELECT on sequence public.docket_events_id_seq", []string{"GRANT SELECT ON SEQUENCE docket_events_id_seq TO "}},
	} {
		wantFinding(t, check(t, dsn, "public"), exporter.LevelFail, step.lacks, grants)
		for _, grant := range step.grant {
			s.do(grant + role)
		}
	}
	wantFinding(t, check(t, dsn, "public"), exporter.LevelOK, "pg_read_all_stats", "GRANT pg_read_all_stats TO")

	s.do("ALTER TABLE docket_events ENABLE ROW LEVEL SECURITY")
	wantFinding(t, check(t, dsn, "public"), exporter.LevelFail, "row-level security hides rows", "BYPASSRLS")
}

func TestCheckFailsWithItsConnection(t *testing.T) {
	d := open(t, docket.Options{})
	conn := pgtest.Connect(t, d.dsn)
	d.session().do("SELECT pg_terminate_backend($1)", conn.PgConn().PID())
	if found, err := docket.Check(t.Context(), conn, "public"); err == nil {
		t.Errorf("no error, but\n%s", list(found))
	}
	if _, err := docket.CheckRetention(t.Context(), conn, "public", retention.Policy{Events: time.Hour}); err == nil {
		t.Error("no error of the retention")
	}
}
