package docket_test

import (
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/retention"
	"github.com/docket-exporter/exporter/sources/docket"
)

func TestCheckRetention(t *testing.T) {
	const day = 24 * time.Hour
	d := open(t, docket.Options{})
	s := d.session()
	told := func(p retention.Policy) []exporter.Finding {
		t.Helper()
		found, err := docket.CheckRetention(t.Context(), s.Conn, "public", p)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	events := func(d time.Duration) []exporter.Finding { t.Helper(); return told(retention.Policy{Events: d}) }
	wantFinding(t, events(0), exporter.LevelOK, "none", "")
	wantFinding(t, events(14*day), exporter.LevelOK, "RETENTION_EVENTS is 14d; there is no event", "")

	s.runs("r1")
	s.do("UPDATE docket_runs SET started_at = now() - interval '26 hours'")
	s.insertAt("r1", 1, time.Now().Add(-24*time.Hour-90*time.Minute))
	s.insertAt("r1", 2, time.Now().Add(-time.Hour))
	wantFinding(t, events(day), exporter.LevelOK, "RETENTION_EVENTS is 1d; the oldest event is 1d1h30m old", "") // 10 %
	wantFinding(t, events(day+time.Hour), exporter.LevelOK, "1d1h30m", "")
	wantFinding(t, events(10*time.Hour), exporter.LevelWarn, "RETENTION_EVENTS is 10h, but the oldest event is 1d1h30m old", "event_retention")
	wantFinding(t, events(22*time.Hour), exporter.LevelWarn, "22h, but", "pruner")
	wantFinding(t, events(30*day), exporter.LevelOK, "1d1h30m", "") // a young installation

	// What the retention is said to keep is gone.
	s.do("DELETE FROM docket_events WHERE id = 1")
	wantFinding(t, events(30*day), exporter.LevelWarn, "RETENTION_EVENTS is 30d, but the oldest event is only 1h old, and events of runs that are younger than 30d are gone", "too late")
	wantFinding(t, events(day), exporter.LevelOK, "the oldest event is 1h old, which proves nothing yet", "") // an idle Docket, pruned as told
	s.do("UPDATE docket_events SET inserted_at = now() + interval '1 hour'")
	wantFinding(t, events(30*day), exporter.LevelWarn, "only 0s old", "")

	s.do(`UPDATE docket_runs SET status = 'done', claim_token = NULL, claimed_at = NULL, finished_at = now(), updated_at = now() - interval '40 days'`)
	wantFinding(t, told(retention.Policy{Events: day, Runs: 30 * day}), exporter.LevelWarn, "RETENTION_RUNS is 30d, but the oldest finished run was last changed 40d ago", "run_retention")
	s.do("DROP TABLE docket_events")
	wantFinding(t, events(day), exporter.LevelFail, "read the oldest event", "")
}
