package main

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// installed is an environment in which run could start: Docket's tables, the
// exporter's, and a directory for files.
func installed(t *testing.T) (env map[string]string, conn *pgx.Conn) {
	t.Helper()
	dsn := pgtest.Database(t)
	conn = pgtest.Connect(t, dsn)
	if err := docketsim.Install(t.Context(), conn, "public"); err != nil {
		t.Fatal(err)
	}
	env = with("DOCKET_DATABASE_URL="+dsn, "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir())
	command(t, env, "migrate").want(t, exitOK, "went from version 0 to")
	return env, conn
}

// asRole returns the database URL of env for another, fresh role.
func asRole(t *testing.T, conn *pgx.Conn, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "CREATE ROLE "+role+" LOGIN PASSWORD 'topsecret'")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		admin, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close(ctx)
		if _, err := admin.Exec(ctx, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "topsecret")
	return u.String()
}

// closedPort is an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestMigrateIsIdempotent(t *testing.T) {
	env, _ := installed(t)
	command(t, env, "migrate").want(t, exitOK, "nothing to do")
	command(t, env, "migrate", "--json").want(t, exitOK, `"schema": "docket_export"`)
}

func TestMigratePrintsWithoutADatabase(t *testing.T) {
	env := map[string]string{"EXPORT_SCHEMA": `we"ird`}
	command(t, env, "migrate", "--print-sql").want(t, exitOK, `CREATE SCHEMA IF NOT EXISTS "we""ird"`)
	command(t, env, "migrate", "--print-grants", "reader").want(t, exitOK, `TO "reader"`, `"we""ird"`)
}

// A role with just the printed grants can migrate and pass the check.
func TestPrintedGrantsAreEnough(t *testing.T) {
	dsn := pgtest.Database(t)
	conn := pgtest.Connect(t, dsn)
	if err := docketsim.Install(t.Context(), conn, "public"); err != nil {
		t.Fatal(err)
	}
	role := "least_" + strings.ToLower(t.Name()[:8])
	env := with("DOCKET_DATABASE_URL="+asRole(t, conn, dsn, role), "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir())
	grants := command(t, env, "migrate", "--print-grants", role)
	if _, err := conn.PgConn().Exec(t.Context(), grants.stdout).ReadAll(); err != nil {
		t.Fatal(err)
	}
	command(t, env, "migrate").want(t, exitOK)
	command(t, env, "check").want(t, exitOK)
	pgtest.Exec(t, conn, "ALTER TABLE docket_export.consumers OWNER TO CURRENT_USER")
	command(t, env, "check").want(t, exitPerson, "lacks", "on consumers", "--print-grants")
	command(t, env, "status").want(t, exitPerson, "permission denied", "--print-grants")
}

func TestUnreachableServer(t *testing.T) {
	addr := closedPort(t)
	env := with("DOCKET_DATABASE_URL=postgres://reader:topsecret@"+addr+"/app", "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir())
	for _, args := range [][]string{{"check"}, {"status"}, {"migrate"}, {"cursor", "list"}} {
		r := command(t, env, args...)
		r.want(t, exitFailed, addr+"/app", "check host and port")
		if strings.Contains(r.stdout+r.stderr, "topsecret") {
			t.Errorf("%q shows the password", args)
		}
		if n := strings.Count(r.stdout+r.stderr, "connection refused"); n > 2 { // check connects twice
			t.Errorf("%q says it %d times", args, n)
		}
	}
}

func TestWrongCredentials(t *testing.T) {
	env, conn := installed(t)
	u := asRole(t, conn, env["DOCKET_DATABASE_URL"], "stranger")
	env["DOCKET_DATABASE_URL"] = strings.Replace(u, "stranger:topsecret", "nobody_such:topsecret", 1)
	r := command(t, env, "status")
	r.want(t, exitFailed, "nobody_such", "check user and password")
	if strings.Contains(r.stderr, "topsecret") {
		t.Error("the password is shown")
	}
}

func TestSchemaVersions(t *testing.T) {
	env, conn := installed(t)
	pgtest.Exec(t, conn, "UPDATE docket_export.schema_version SET version = version + 1")
	for _, args := range [][]string{{"check"}, {"status"}, {"migrate"}} {
		command(t, env, args...).want(t, exitPerson, "use a newer exporter")
	}
	pgtest.Exec(t, conn, "UPDATE docket_export.schema_version SET version = 0")
	command(t, env, "status").want(t, exitPerson, "exporter migrate")
	env["EXPORT_SCHEMA"] = "elsewhere"
	for _, args := range [][]string{{"check"}, {"cursor", "list"}} {
		command(t, env, args...).want(t, exitPerson, `"elsewhere"`, "run `exporter migrate`")
	}
}

func TestReadOnlyServer(t *testing.T) {
	env, conn := installed(t)
	createAnalytics(t, conn)
	pgtest.Exec(t, conn, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	command(t, env, "check").want(t, exitPerson, "takes no writes", "switch it off")
	env["EXPORT_SCHEMA"] = "elsewhere"
	command(t, env, "migrate").want(t, exitPerson, "default_transaction_read_only", "switch it off")
	env["EXPORT_SCHEMA"] = "docket_export"
	command(t, env, "migrate").want(t, exitOK, "nothing to do")
	command(t, env, "consumer", "pause", "analytics", "--reason", "x").want(t, exitPerson, "default_transaction_read_only is on", "switch it off")
}

func TestStandbyServer(t *testing.T) {
	t.Parallel()
	primary := pgtest.Cluster(t, pgserver.Options{})
	env := map[string]string{"DOCKET_DATABASE_URL": primary.URL("postgres")}
	command(t, env, "migrate").want(t, exitOK)
	createAnalytics(t, pgtest.Connect(t, primary.URL("postgres")))
	env["DOCKET_DATABASE_URL"] = pgtest.Standby(t, primary, pgserver.Options{}).URL("postgres")
	command(t, env, "migrate").want(t, exitOK, "nothing to do")
	command(t, env, "status").want(t, exitPerson, "is a standby and takes no writes", "target_session_attrs=read-write in DOCKET_DATABASE_URL", "analytics")
	command(t, env, "consumer", "pause", "analytics", "--reason", "x").want(t, exitPerson, "is a standby", "connect to the primary", "DOCKET_DATABASE_URL")
	env["EXPORT_SCHEMA"] = "elsewhere"
	command(t, env, "migrate").want(t, exitPerson, "is a standby", "connect to the primary")
}

func createAnalytics(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	pgtest.Exec(t, conn, "INSERT INTO docket_export.consumers (name, high_id) VALUES ('analytics', 0)")
}

func TestCheckNamesTheSinksVariable(t *testing.T) {
	env, _ := installed(t)
	command(t, env, "check").want(t, exitOK, "ok", "files can be written")
	env["CONSUMER_ANALYTICS_FILE_DIR"] += "/missing"
	command(t, env, "check").want(t, exitUsage, "FAIL", "/missing", "CONSUMER_ANALYTICS_FILE_DIR")
	command(t, env, "check", "--json").want(t, exitUsage, `"level": "fail"`, `"subject": "consumer analytics"`)
}

func TestCheckReachesForDirectConnections(t *testing.T) {
	env, _ := installed(t)
	env["EXPORT_DIRECT_URL"] = env["DOCKET_DATABASE_URL"] + "&application_name=direct"
	command(t, env, "check").want(t, exitOK, "EXPORT_DIRECT_URL")
	env["DOCKET_DIRECT_URL"] = "postgres://" + closedPort(t) + "/app"
	command(t, env, "check").want(t, exitFailed, "FAIL  DOCKET_DIRECT_URL")
}
