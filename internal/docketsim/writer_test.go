package docketsim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// install makes the tables in a new database and returns a pool of 20.
func install(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Database(t)+"&pool_max_conns=20")
	if err := docketsim.Install(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	return pool
}

// each query counts the rows that break a promise.
var promises = map[string]string{
	"runs whose seq does not count from 1 without gaps": `
		SELECT count(*) FROM (SELECT FROM docket_events GROUP BY run_id HAVING max(seq) <> count(*) OR min(seq) <> 1) r`,
	"events with a lower id than their predecessor in the run": `
		SELECT count(*) FROM docket_events a JOIN docket_events b ON b.run_id = a.run_id AND b.seq = a.seq + 1 WHERE b.id < a.id`,
	"finished runs whose last event is not a terminal checkpoint": `
		SELECT count(*) FROM docket_runs r
		JOIN LATERAL (SELECT type, metadata FROM docket_events e WHERE e.run_id = r.run_id ORDER BY seq DESC LIMIT 1) e ON true
		WHERE (r.finished_at IS NOT NULL) <> (position('terminal'::bytea IN e.metadata) > 0) OR e.type <> 'checkpoint_committed'`,
	"runs whose checkpoint_seq is not their number of checkpoints": `
		SELECT count(*) FROM docket_runs r WHERE checkpoint_seq <>
			(SELECT count(*) FROM docket_events e WHERE e.run_id = r.run_id AND type = 'checkpoint_committed')`,
}

func checkPromises(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	checkDecodes(t, pool)
	for what, sql := range promises {
		if n := pgtest.Value[int](t, pool, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// checkDecodes decodes every payload and metadata in the table.
func checkDecodes(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT id, payload, metadata FROM docket_events")
	if err != nil {
		t.Fatal(err)
	}
	var decoder etf.Decoder
	var id int64
	var payload, metadata []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &payload, &metadata}, func() error {
		for _, term := range [][]byte{payload, metadata} {
			if _, err := decoder.AppendJSON(nil, term); err != nil {
				return fmt.Errorf("event %d: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWriterKeepsDocketsPromises(t *testing.T) {
	t.Parallel()
	pool := install(t)
	w := docketsim.NewWriter(pool, "public")
	w.SlowMax = 300 * time.Millisecond
	w.SlowCommit, w.Rollback, w.Burn = 0.1, 0.1, 0.1

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	below := lateIDs(t, pool, w)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	stats := w.Stats()
	t.Logf("%+v, %d ids appeared below the highest seen", stats, below)
	if below == 0 {
		t.Error("no id became visible below one that was visible before")
	}
	checkPromises(t, pool)
	if got := pgtest.Value[int64](t, pool, "SELECT count(*) FROM docket_events"); got != stats.Events {
		t.Errorf("%d events in the table, %d counted", got, stats.Events)
	}
	if got := pgtest.Value[int64](t, pool, "SELECT count(*) FROM docket_runs"); got != stats.Runs {
		t.Errorf("%d runs in the table, %d counted", got, stats.Runs)
	}
	holes := pgtest.Value[int64](t, pool, "SELECT last_value - (SELECT count(*) FROM docket_events) FROM docket_events_id_seq")
	if holes != stats.RolledBack+stats.Burned {
		t.Errorf("%d ids are missing, %d were drawn in vain", holes, stats.RolledBack+stats.Burned)
	}
	for name, n := range map[string]int64{
		"rolled back": stats.RolledBack, "burned": stats.Burned, "slow": stats.SlowCommits, "finished": stats.Finished,
	} {
		if n == 0 {
			t.Errorf("nothing was %s", name)
		}
	}
	if n := pgtest.Value[int](t, pool, "SELECT count(DISTINCT type) FROM docket_events"); n != 11 {
		t.Errorf("%d types of event, Docket 0.3.0 has 11", n)
	}
	if n := pgtest.Value[int](t, pool, "SELECT count(DISTINCT tenant_id IS NULL) FROM docket_runs"); n != 2 {
		t.Error("runs with and without tenant are wanted")
	}
}

// lateIDs watches until the writer has written enough for every rare case, and
// counts ids that appear below the highest one seen earlier.
func lateIDs(t *testing.T, pool *pgxpool.Pool, w *docketsim.Writer) int {
	t.Helper()
	late, seen, highest := 0, 0, int64(0)
	pgtest.Until(t, 2*time.Minute, "800 runs and a late commit", func() bool {
		var below int
		var top int64
		err := pool.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE id <= $1), COALESCE(max(id), 0) FROM docket_events", highest).
			Scan(&below, &top)
		if err != nil {
			t.Fatal(err)
		}
		late += below - seen
		// From here on everything up to the new highest id counts as seen.
		err = pool.QueryRow(t.Context(), "SELECT count(*) FROM docket_events WHERE id <= $1", top).Scan(&seen)
		if err != nil {
			t.Fatal(err)
		}
		highest = top
		return late > 0 && w.Stats().Runs >= 800
	})
	return late
}

func TestWriterHoldsItsRate(t *testing.T) {
	t.Parallel()
	w := docketsim.NewWriter(install(t), "public")
	w.Rate, w.SlowCommit, w.Concurrency = 400, 0, 4
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.Stats().Events; n == 0 || n > 600 {
		t.Errorf("%d events in a second at a rate of 400", n)
	}
}

func TestHoldOpenDrawsIDsBeforeItCommits(t *testing.T) {
	t.Parallel()
	pool := install(t)
	w := docketsim.NewWriter(pool, "public")
	ctx, release := context.WithCancel(t.Context())
	defer release()
	done := make(chan error, 1)
	go func() { done <- w.HoldOpen(ctx, time.Hour) }()
	pgtest.Until(t, 30*time.Second, "ids drawn", func() bool {
		return pgtest.Value[bool](t, pool, "SELECT is_called FROM docket_events_id_seq")
	})
	if n := pgtest.Value[int](t, pool, "SELECT count(*) FROM docket_events"); n != 0 {
		t.Errorf("%d events are visible before the commit", n)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, pool, "SELECT count(*) FROM docket_events"); n == 0 || n != w.Stats().Events {
		t.Errorf("%d events after the commit, %d counted", n, w.Stats().Events)
	}
}

func TestRunTellsFailureUnlessItKeepsGoing(t *testing.T) {
	t.Parallel()
	pool := install(t)
	pgtest.Exec(t, pool, "DROP TABLE docket_events")
	w := docketsim.NewWriter(pool, "public")
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run returned nil without its table")
	}
	w.KeepGoing = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	before := w.Stats().Failures
	go func() { done <- w.Run(ctx) }()
	pgtest.Until(t, 30*time.Second, "failures to count", func() bool { return w.Stats().Failures > before+50 })
	if err := docketsim.Install(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	pgtest.Until(t, 30*time.Second, "events once the table is back", func() bool { return w.Stats().Events > 0 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
