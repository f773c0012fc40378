package pgtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestDatabasesAreApartAndDropped(t *testing.T) {
	admin := pgtest.Connect(t, pgtest.Database(t))
	var name string
	t.Run("busy", func(t *testing.T) {
		dsn := pgtest.Database(t)
		conn := pgtest.Connect(t, dsn)
		name = pgtest.Value[string](t, conn, "SELECT current_database()")
		pgtest.Exec(t, conn, "CREATE TABLE mine ()")
		pgtest.Exec(t, conn, "BEGIN")
		pgtest.Exec(t, conn, "INSERT INTO mine DEFAULT VALUES")
		pgtest.Exec(t, conn, "PREPARE TRANSACTION 'left open'")
		pgtest.Exec(t, pgtest.Pool(t, dsn), "BEGIN; INSERT INTO mine DEFAULT VALUES")
	})
	if pgtest.Value[bool](t, admin, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name) {
		t.Errorf("database %s is still there after its test", name)
	}
}

func TestDatabaseOnANamedServer(t *testing.T) {
	cluster := pgtest.Cluster(t, pgserver.Options{})
	t.Setenv("TEST_DATABASE_URL", cluster.URL("ignored"))
	conn := pgtest.Connect(t, pgtest.Database(t))
	if got := pgtest.Value[int](t, conn, "SELECT inet_server_port()"); got != cluster.Port() {
		t.Errorf("database on port %d, TEST_DATABASE_URL names %d", got, cluster.Port())
	}
}

func TestPgBouncerPoolsTransactions(t *testing.T) {
	t.Parallel()
	bouncer := pgtest.PgBouncer(t, pgtest.Database(t), 1)
	backend := func() int {
		config, err := pgx.ParseConfig(bouncer.DSN())
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return pgtest.Value[int](t, conn, "SELECT pg_backend_pid()")
	}
	if first, second := backend(), backend(); first != second {
		t.Errorf("two clients of a pool of one have the backends %d and %d", first, second)
	}
	if err := bouncer.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), bouncer.DSN()); err == nil {
		t.Error("connected through a killed bouncer")
	}
	if err := bouncer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	backend()
}

func TestEventuallyAwaits(t *testing.T) {
	t.Parallel()
	calls := 0
	pgtest.Eventually(t, time.Second, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}
