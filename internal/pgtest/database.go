package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Database makes an empty database on the shared server and returns its DSN
// (postgres:// URL of the superuser). It is dropped when the test ends, also
// while somebody is connected or a prepared transaction is open.
func Database(t testing.TB) string {
	t.Helper()
	name := "test_" + rand.Text()
	dsn, err := sharedDSN(name)
	if err != nil {
		t.Fatal(err)
	}
	onServer(t, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		return err
	})
	t.Cleanup(func() { drop(t, name) })
	return dsn
}

func drop(t testing.TB, name string) {
	onServer(t, name, rollbackPrepared)
	onServer(t, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		return err
	})
}

// rollbackPrepared ends prepared transactions, which FORCE does not.
func rollbackPrepared(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE database = current_database()")
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// onServer runs do on one of the shared server's databases. It does not use
// the test's context, which has ended by cleanup.
func onServer(t testing.TB, database string, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dsn, err := sharedDSN(database)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatalf("connect to test server: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the work is done or has failed
	if err := do(ctx, conn); err != nil {
		t.Fatalf("prepare test database: %v", err)
	}
}

// Connect opens a connection that is closed when the test ends.
func Connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the test may have cut it
	})
	return conn
}

// Pool opens a pool that is closed when the test ends.
func Pool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// PlainPool opens a pool as the exporter does, which prepares nothing on a
// session; change says what else is to be different. It is closed when the test
// ends, if not sooner.
func PlainPool(t testing.TB, dsn string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Execer is a connection, pool or transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Exec runs a statement and fails the test on an error.
func Exec(t testing.TB, on Execer, sql string, args ...any) {
	t.Helper()
	if _, err := on.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value runs a query that returns one value and fails the test on an error.
func Value[T any](t testing.TB, on Queryer, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := on.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// Queryer is a connection, pool or transaction.
type Queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Eventually calls check until it returns nil and fails the test with its last
// error when that has not happened within timeout.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", timeout, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Until calls check until it is true and fails the test, saying what was
// awaited, when that has not happened within timeout.
func Until(t testing.TB, timeout time.Duration, what string, check func() bool) {
	t.Helper()
	Eventually(t, timeout, func() error {
		if check() {
			return nil
		}
		return fmt.Errorf("awaiting: %s", what)
	})
}
