package docket_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

func hold(t *testing.T, dsn, schema string) (*docket.PrunerHold, error) {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "guard"
	return docket.HoldPruner(t.Context(), config, schema, 0)
}

func mustHold(t *testing.T, dsn, schema string) *docket.PrunerHold {
	t.Helper()
	h, err := hold(t, dsn, schema)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// While it is held the pruner deletes nothing, afterwards it catches up; the
// pruning of another schema goes on, and Docket's writers meet no lock.
func TestAHoldKeepsThePrunerOff(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.insertOld("r", 1, 30, 2*day)
	pruner := docketsim.Pruner{Schema: "public", Events: day, Batch: 20}
	pass := func() docketsim.Pruned {
		t.Helper()
		done, err := pruner.Pass(t.Context(), s.Conn)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	first, second := mustHold(t, d.dsn, "public"), mustHold(t, d.dsn, "public")
	last := mustHold(t, d.dsn, "public")
	defer runtime.KeepAlive(last) // a socket that nobody refers to is closed
	if got := pass(); got != (docketsim.Pruned{Skipped: true}) {
		t.Errorf("a pass beside three holds: %+v", got)
	}
	if err := first.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if before, err := first.Already(t.Context()); err != nil || before != 0 {
		t.Errorf("held off for %v before the first, %v", before, err)
	}
	if before, err := second.Already(t.Context()); err != nil || before <= 0 || before > time.Minute {
		t.Errorf("held off for %v before the second, %v", before, err)
	}
	if holders, err := docket.PrunerHolders(t.Context(), s.Conn, "public"); err != nil || len(holders) != 3 || holders[0].Application != "guard" || holders[0].Since.IsZero() {
		t.Errorf("holders %+v, %v", holders, err)
	}

	// A writer waits for nobody: an exclusive lock on the tables, which conflicts
	// with whatever anybody has there, is had at once.
	s.do("SET lock_timeout = '1ms'")
	s.do("BEGIN")
	s.do("LOCK TABLE docket_events, docket_runs IN ACCESS EXCLUSIVE MODE")
	s.insertOld("r", 31, 31, 0)
	s.do("COMMIT")

	other := d.session()
	if err := docketsim.Install(t.Context(), other, "acme"); err != nil {
		t.Fatal(err)
	}
	if got, err := (docketsim.Pruner{Schema: "acme", Events: day}).Pass(t.Context(), other); err != nil || got.Skipped {
		t.Errorf("a pass over another schema: %+v, %v", got, err)
	}
	for _, h := range []*docket.PrunerHold{first, second} {
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := pass(); !got.Skipped {
		t.Errorf("a pass beside the last hold: %+v", got)
	}
	s.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guard'")
	pgtest.Until(t, 10*time.Second, "the pass after the last session ended", func() bool { return pass().Events == 20 })
	if got := pass(); got.Events != 10 {
		t.Errorf("the next pass: %+v", got)
	}
}

func TestAHoldDoesNotQueueBehindAPass(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.do("BEGIN")
	s.do("SELECT pg_try_advisory_xact_lock(hashtextextended('docket:pruner:public', 0))")
	if _, err := hold(t, d.dsn, "public"); !errors.Is(err, docket.ErrPrunerAtWork) {
		t.Errorf("beside a pass: %v", err)
	}
	s.do("COMMIT")
	h := mustHold(t, d.dsn, "public")
	s.do("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
	pgtest.Until(t, 10*time.Second, "the hold to be gone", func() bool { return h.Check(t.Context()) != nil })
}

// A lock taken through a pooler would stay with a session that lives on.
func TestAHoldThroughAPoolerIsRefused(t *testing.T) {
	d := open(t, docket.Options{})
	pooler := pgtest.PgBouncer(t, d.dsn, 2)
	_, err := hold(t, pooler.DSN(), "public")
	if !errors.Is(err, docket.ErrNotDirect) || !strings.Contains(fmt.Sprint(err), "pooler") {
		t.Fatalf("through a pooler: %v", err)
	}
	if holders, err := docket.PrunerHolders(t.Context(), d.session().Conn, "public"); err != nil || len(holders) > 0 {
		t.Errorf("holders %+v, %v", holders, err)
	}
}

func TestAHoldIsRefusedWhereItMeansNothing(t *testing.T) {
	d := open(t, docket.Options{})
	if _, err := hold(t, d.dsn, "acme"); !errors.Is(err, docket.ErrNoTable) {
		t.Errorf("of a schema without tables: %v", err)
	}
	config, err := pgx.ParseConfig(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := docket.HoldPruner(t.Context(), config, "public", 42); err == nil || !strings.Contains(err.Error(), "system identifier") {
		t.Errorf("on another server: %v", err)
	}
}

func TestAHoldOverAUnixSocket(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	config, err := pgx.ParseConfig(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.Host = pgtest.Value[string](t, s.Conn, "SHOW unix_socket_directories")
	h, err := docket.HoldPruner(t.Context(), config, "public", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
