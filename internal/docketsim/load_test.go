package docketsim_test

import (
	"math"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestLoadIsExactAndRealInShape(t *testing.T) {
	t.Parallel()
	pool := install(t)
	const n = 60_001
	if err := docketsim.Load(t.Context(), pool, "public", n, docketsim.LoadOptions{Seed: 1, Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	checkPromises(t, pool)
	if got := pgtest.Value[int](t, pool, "SELECT count(*) FROM docket_events"); got != n {
		t.Errorf("%d events, want %d", got, n)
	}
	if got := pgtest.Value[int](t, pool, "SELECT last_value FROM docket_events_id_seq"); got != n {
		t.Errorf("highest id = %d, want %d", got, n)
	}
	size := pgtest.Value[float64](t, pool, "SELECT avg(pg_column_size(e.*))::float8 FROM docket_events e")
	checkpoints := pgtest.Value[float64](t, pool, "SELECT avg(pg_column_size(e.*))::float8 FROM docket_events e WHERE type = 'checkpoint_committed'")
	share := pgtest.Value[float64](t, pool, "SELECT avg((type = 'checkpoint_committed')::int)::float8 FROM docket_events")
	perRun := pgtest.Value[float64](t, pool, "SELECT (SELECT count(*) FROM docket_events)::float8 / (SELECT count(*) FROM docket_runs)")
	t.Logf("row %.0f B, checkpoint %.0f B, %.0f %% of the rows; %.0f events per run", size, checkpoints, 100*share, perRun)
	within(t, "average row", size, 200, 400)
	within(t, "average checkpoint row", checkpoints, 350, 700)
	within(t, "share of checkpoints", share, 0.15, 0.30)
	within(t, "events per run", perRun, 10, 40)

	oldest := pgtest.Value[float64](t, pool, "SELECT extract(epoch FROM now() - min(inserted_at))::float8 FROM docket_events")
	within(t, "age of the oldest event in seconds", oldest, 3600, 3700)
	newest := pgtest.Value[float64](t, pool, "SELECT extract(epoch FROM now() - max(inserted_at))::float8 FROM docket_events")
	within(t, "age of the newest event in seconds", newest, 0, 60)
}

// TestLoadSizesAreDockets compares the mean octets of each type with real rows.
func TestLoadSizesAreDockets(t *testing.T) {
	t.Parallel()
	pool := install(t)
	if err := docketsim.Load(t.Context(), pool, "public", 20_000, docketsim.LoadOptions{Seed: 2}); err != nil {
		t.Fatal(err)
	}
	sum, count := make(map[string]float64), make(map[string]float64)
	for _, row := range realRows(t) {
		sum[row["type"]] += float64(len(unhex(t, row["payload"])) + len(unhex(t, row["metadata"])))
		count[row["type"]]++
	}
	for kind := range count {
		want := sum[kind] / count[kind]
		got := pgtest.Value[float64](t, pool,
			"SELECT COALESCE(avg(octet_length(payload) + octet_length(metadata)), 0)::float8 FROM docket_events WHERE type = $1", kind)
		within(t, "mean octets of "+kind, got, want/2, want*2)
	}
}

func TestOneSeedTwiceInOneTable(t *testing.T) {
	t.Parallel()
	pool := install(t)
	for range 2 {
		if err := docketsim.Load(t.Context(), pool, "public", 500, docketsim.LoadOptions{Seed: 3}); err != nil {
			t.Fatal(err)
		}
	}
	checkPromises(t, pool)
}

func TestLoadAnyNumber(t *testing.T) {
	t.Parallel()
	pool := install(t)
	if err := docketsim.Load(t.Context(), pool, "public", 2, docketsim.LoadOptions{}); err == nil {
		t.Error("loaded 2 events, fewer than a run has")
	}
	total := 0
	for n := 3; n < 60; n += 4 {
		total += n
		if err := docketsim.Load(t.Context(), pool, "public", n, docketsim.LoadOptions{Seed: uint64(n), PayloadBytes: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	checkPromises(t, pool)
	if got := pgtest.Value[int](t, pool, "SELECT count(*) FROM docket_events"); got != total {
		t.Errorf("%d events, want %d", got, total)
	}
	least := pgtest.Value[float64](t, pool, "SELECT min(octet_length(payload))::float8 FROM docket_events")
	within(t, "smallest payload", least, 1000, 1100)
}

func within(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if math.IsNaN(got) || got < low || got > high {
		t.Errorf("%s = %.2f, want %.2f to %.2f", what, got, low, high)
	}
}
