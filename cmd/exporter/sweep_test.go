package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sinks/file"
	"github.com/docket-exporter/exporter/sources/docket"
)

// An id that was drawn and not used can be inserted long after nothing held the
// sequence any more: no evidence protects it, and no correct writer does it.
// The sweep is the net below.
func TestSweepDeliversRowsThatNoEvidenceProtects(t *testing.T) {
	s := newSite(t)
	insert := func(run string, seq int, id string) {
		t.Helper()
		pgtest.Exec(t, s.pool, `INSERT INTO docket_events (id, run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
			VALUES (`+id+`, $1, $2, 't', 0, $3, $3, now(), now())`, run, seq, docketsim.EncodeEvent(map[string]any{}))
	}
	s.insert("r", 1)
	pgtest.Exec(t, s.pool, `SELECT nextval('docket_events_id_seq')`)
	s.insert("q", 1)

	pool := pgtest.PlainPool(t, s.dsn)
	defer pool.Close()
	store := cursor.NewStore(pool, nil, "docket_export")
	if _, err := store.Create(t.Context(), cursor.Consumer{Name: "analytics", By: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	own, state, err := store.Claim(t.Context(), "analytics", "me", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := file.Open(file.Config{Dir: s.env["CONSUMER_ANALYTICS_FILE_DIR"]}, "analytics")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	p := &exporter.Pipeline{
		Consumer: "analytics", Source: docket.New(pool, docket.Options{}), Sink: sink, Cursor: own,
		SweepInterval: 100 * time.Millisecond, Metrics: exporter.NewMetrics(registry).Consumer("analytics"),
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- p.Run(ctx, stop, state) }()
	s.await("analytics", 2)
	pgtest.Until(t, 10*time.Second, "the id to be given up", func() bool { return s.status("analytics").Position.String() == "3" })
	insert("r", 2, "2") // far below what has been exported
	s.await("analytics", 3)
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP docket_exporter_late_rows_total Events that appeared after their id had been declared dead. No correct writer makes them.
# TYPE docket_exporter_late_rows_total counter
docket_exporter_late_rows_total{consumer="analytics"} 1
`), "docket_exporter_late_rows_total"); err != nil {
		t.Fatal(err)
	}
	if got := s.delivered("analytics"); got[len(got)-1] != "r/2" || len(got) != 3 {
		t.Fatalf("delivered %v", got)
	}
}
