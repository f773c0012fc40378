package docketsim_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestInstallTakesRealRows(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, pgtest.Database(t))
	for range 2 { // the second one changes nothing
		if err := docketsim.Install(t.Context(), conn, `od"d`); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"docket_runs", "docket_events"} {
		csv, err := os.Open("testdata/" + table + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = csv.Close() }()
		name := pgx.Identifier{`od"d`, table}.Sanitize()
		if _, err := conn.PgConn().CopyFrom(t.Context(), csv, "COPY "+name+columns(t, csv)+" FROM STDIN (FORMAT csv, HEADER)"); err != nil {
			t.Errorf("copy real rows into %s: %v", table, err)
		}
	}
	if got := pgtest.Value[string](t, conn, `SELECT obj_description('"od""d".docket_runs'::regclass, 'pg_class')`); got != "2" {
		t.Errorf("version marker = %q", got)
	}
	if got := pgtest.Value[string](t, conn, `SELECT pg_get_serial_sequence('"od""d".docket_events', 'id')`); got != `"od""d".docket_events_id_seq` {
		t.Errorf("id sequence = %s", got)
	}
}

// columns is the CSV's header as a column list; the file is rewound.
func columns(t *testing.T, csv *os.File) string {
	t.Helper()
	start := make([]byte, 1024)
	n, err := csv.Read(start)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := csv.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(string(start[:n]), "\n")
	names := strings.Split(strings.TrimSpace(header), ",")
	if !slices.Contains(names, "run_id") {
		t.Fatalf("header = %q", header)
	}
	return "(" + strings.Join(names, ", ") + ")"
}
