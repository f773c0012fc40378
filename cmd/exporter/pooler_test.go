package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
)

// Source and state through a pooler in transaction mode with two connections,
// which is killed twice while Docket writes.
func TestRunThroughPgBouncer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pooler := pgtest.PgBouncer(t, s.dsn, 2)
	s.env["DOCKET_DATABASE_URL"], s.env["DOCKET_DIRECT_URL"] = pooler.DSN(), s.dsn
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	s.also("feed")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	writer := docketsim.NewWriter(pgtest.Pool(t, s.dsn+"&pool_max_conns=8"), "public")
	writer.Concurrency, writer.Rate, writer.SlowMax = 8, 300, 300*time.Millisecond
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Run(ctx) }()

	c := start(t, s.env, "", "run")
	for range 2 {
		before := s.high()
		pgtest.Until(t, 30*time.Second, "progress", func() bool { return s.high() > before })
		if err := pooler.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := pooler.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := s.high()
	pgtest.Until(t, 30*time.Second, "progress after the pooler's restart", func() bool { return s.high() > before })
	stop()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	for _, consumer := range []string{"analytics", "feed"} {
		pgtest.Eventually(t, 30*time.Second, func() error {
			r, err := verdict.Read(t.Context(), s.pool, "public", nil, s.env["CONSUMER_"+strings.ToUpper(consumer)+"_FILE_DIR"], consumer)
			if err == nil && !r.Clean() {
				err = fmt.Errorf("%s: %s %v", consumer, r, r.Examples)
			}
			return err
		})
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(30 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
}
