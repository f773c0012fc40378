package docket

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// A process that is frozen keeps its sockets, so the server ends the session
// of a hold that is not checked.
func TestAHoldEndsWithoutChecks(t *testing.T) {
	dsn := pgtest.Database(t)
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, dsn), "public"); err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	h, err := HoldPruner(t.Context(), config, "public", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close(t.Context())
	if got := pgtest.Value[string](t, h.conn, `SELECT current_setting('idle_session_timeout', true)`); got != "30s" {
		t.Errorf("an idle session may last %q", got)
	}
}
