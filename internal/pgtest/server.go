package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgserver"
)

// serverVar names the server that tests use instead of a private one.
const serverVar = "TEST_DATABASE_URL"

// startTimeout bounds making and stopping servers on a busy machine.
const startTimeout = 2 * time.Minute

// shared is the test binary's server. TestMain cannot hand a value to tests,
// so it lives here.
var shared struct {
	mu      sync.Mutex
	main    bool // Main will stop what is started
	cluster *pgserver.Cluster
	err     error
}

// Main runs the tests, stops the shared server if one was started, and exits.
func Main(m *testing.M) {
	shared.main = true
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func stopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return shared.cluster.Stop(ctx)
}

// sharedDSN is the superuser's connection string to a database on the shared
// server, which is started at the first call.
func sharedDSN(database string) (string, error) {
	if dsn := os.Getenv(serverVar); dsn != "" {
		u, err := url.Parse(dsn)
		if err != nil || u.Scheme == "" {
			return "", fmt.Errorf("%s must be a postgres:// URL of a superuser", serverVar)
		}
		u.Path = "/" + database
		return u.String(), nil
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.main {
		return "", errors.New("the package needs `func TestMain(m *testing.M) { pgtest.Main(m) }`")
	}
	if shared.cluster == nil && shared.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		shared.cluster, shared.err = pgserver.Start(ctx, pgserver.Options{})
	}
	if shared.err != nil {
		return "", shared.err
	}
	return shared.cluster.URL(database), nil
}

// Cluster starts a server of the test's own, to stop, kill or configure. It is
// stopped when the test ends.
func Cluster(t testing.TB, o pgserver.Options) *pgserver.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := pgserver.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	stopAtCleanup(t, c)
	return c
}

// Standby starts a streaming standby of a cluster, stopped when the test ends.
func Standby(t testing.TB, primary *pgserver.Cluster, o pgserver.Options) *pgserver.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := primary.BaseBackup(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	stopAtCleanup(t, c)
	return c
}

func stopAtCleanup(t testing.TB, c *pgserver.Cluster) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
	})
}

// PgBouncer runs Debian's PgBouncer in transaction mode in front of dsn's
// server, stopped when the test ends. It admits dsn's user.
func PgBouncer(t testing.TB, dsn string, poolSize int) *pgserver.Bouncer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	b, err := pgserver.StartBouncer(ctx, pgserver.BouncerOptions{DSN: dsn, PoolSize: poolSize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop pgbouncer: %v", err)
		}
	})
	return b
}
