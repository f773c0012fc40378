package docket_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

// A scan sees the events of a batch, each as the batch holds it but for the
// columns of its run, which RunColumns reads.
func TestScanSeesWhatABatchHolds(t *testing.T) {
	acme, err := docket.ParseFilter("*")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]docket.Options{
		"everything": {}, "types": {Filters: filterTypes(t, "node_*")}, "tenants": {Filters: docket.Filters{Tenants: acme}},
		"keys": {PayloadKeys: []string{"attempt"}}, "no payload": {NoPayload: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, o)
			if err := docketsim.Load(t.Context(), d.pool, "public", 2000, docketsim.LoadOptions{Age: time.Hour}); err != nil {
				t.Fatal(err)
			}
			b := d.poll()
			want, runs := map[int64]string{}, map[string]exporter.Event{}
			for _, e := range b.Events {
				runs[e.RunID] = exporter.Event{RunID: e.RunID, TenantID: e.TenantID, GraphID: e.GraphID, GraphHash: e.GraphHash}
				e.TenantID, e.GraphID, e.GraphHash = exporter.Text{}, exporter.Text{}, exporter.Text{}
				want[e.ID] = string(e.AppendJSON(nil))
			}
			scan := docket.New(d.pool, o)
			for _, content := range []bool{true, false} {
				rows, kept := 0, 0
				err := scan.Scan(t.Context(), exporter.Range{Lo: 1, Hi: 2000}, exporter.Position{}, content, func(row *docket.Scanned) error {
					rows++
					got, is := want[row.Event.ID]
					if row.Kept != is || content && is && got != string(row.Event.AppendJSON(nil)) {
						t.Errorf("row %d, kept %v:\n%s\nwant\n%s", row.Event.ID, row.Kept, row.Event.AppendJSON(nil), got)
					}
					if row.Kept {
						kept++
					}
					return nil
				})
				if err != nil || rows != 2000 || kept != len(want) || kept == 0 {
					t.Errorf("%d rows, %d kept of %d, %v", rows, kept, len(want), err)
				}
			}
			seen := 0
			err := scan.RunColumns(t.Context(), append(slices.Collect(maps.Keys(runs)), "no such run"), func(e *exporter.Event) {
				if seen++; string(e.AppendJSON(nil)) != string(new(runs[e.RunID]).AppendJSON(nil)) {
					t.Errorf("run %+v", e)
				}
			})
			if err != nil || seen != len(runs) {
				t.Errorf("%d runs of %d, %v", seen, len(runs), err)
			}
		})
	}
}

// What a scan and Runs say about ends and gaps is what the rows are.
func TestRunsAndTheirEnds(t *testing.T) {
	d := open(t, docket.Options{})
	if err := docketsim.Load(t.Context(), d.pool, "public", 2000, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	ended := map[string]int64{}
	err := d.source.Scan(t.Context(), exporter.Range{Lo: 1, Hi: 2000}, exporter.Position{}, false, func(row *docket.Scanned) error {
		if row.Terminal {
			ended[row.Event.RunID] = row.Event.Seq
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names := pgtest.Value[[]string](t, d.pool, `SELECT array_agg(run_id ORDER BY run_id) FROM docket_runs`)
	states, err := d.source.Runs(t.Context(), append(names, "no such run"))
	if err != nil || len(states) != len(names) {
		t.Fatalf("%d runs of %d, %v", len(states), len(names), err)
	}
	for run, s := range states {
		if _, is := ended[run]; is != s.Finished || s.Ended != s.Finished || s.Whole() != s.Finished {
			t.Errorf("run %s ended at %d: %+v", run, ended[run], s)
		}
	}
	i := slices.IndexFunc(names, func(run string) bool { return ended[run] > 5 })
	pgtest.Exec(t, d.pool, `DELETE FROM docket_events WHERE run_id = $1 AND seq IN (1, 3, 4)`, names[i])
	gaps, err := d.source.Gaps(t.Context(), names[i])
	if err != nil || gaps.String() != "{[1,1],[3,4]}" {
		t.Errorf("gaps %v, %v", gaps, err)
	}
	if states, err = d.source.Runs(t.Context(), names[i:i+1]); err != nil || len(states) != 1 {
		t.Fatal(err)
	}
	if s := states[names[i]]; s.Whole() || s.FirstSeq != 2 {
		t.Errorf("run %+v", s)
	}
}

// A scan that takes too long says so, and one of a changed source is refused.
func TestScanRefuses(t *testing.T) {
	d := open(t, docket.Options{})
	if err := docketsim.Load(t.Context(), d.pool, "public", 2000, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	all := exporter.Range{Lo: 1, Hi: 2000}
	see := func(*docket.Scanned) error { return nil }
	hasty := docket.New(d.pool, docket.Options{StatementTimeout: 500 * time.Millisecond})
	if err := hasty.Scan(t.Context(), all, exporter.Position{}, true, see); err != nil {
		t.Fatal(err)
	}
	lock := pgtest.Connect(t, d.dsn)
	pgtest.Exec(t, lock, `BEGIN`)
	pgtest.Exec(t, lock, `LOCK docket_events IN ACCESS EXCLUSIVE MODE`)
	err := hasty.Scan(t.Context(), all, exporter.Position{}, true, see)
	pgtest.Exec(t, lock, `ROLLBACK`)
	if !errors.Is(err, docket.ErrScanTooLong) {
		t.Errorf("a scan behind a lock: %v", err)
	}
	if err := hasty.Scan(t.Context(), all, exporter.Position{}, true, see); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if err := d.source.Scan(t.Context(), all, exporter.Position{}, true, func(*docket.Scanned) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("scan: %v, want the visitor's error", err)
	}
	var pause *exporter.PauseError
	if err := d.source.Scan(t.Context(), all, exporter.Position{High: 3000}, true, see); !errors.As(err, &pause) {
		t.Errorf("scan of a source that was set back: %v", err)
	}
	b, err := d.source.Events(t.Context(), exporter.Ranges{{Lo: 7, Hi: 8}, {Lo: 100, Hi: 100}})
	if err != nil || len(b.Events) != 3 {
		t.Errorf("%d events, %v", len(b.Events), err)
	}
}
