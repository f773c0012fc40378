package docket_test

import (
	"testing"
	"time"

	"github.com/docket-exporter/exporter/sources/docket"
)

func TestCheckRetention(t *testing.T) {
	const day = 24 * time.Hour
	d := open(t, docket.Options{})
	s := d.session()
	retention := func(told time.Duration) []docket.Finding {
		t.Helper()
		found, err := docket.CheckRetention(t.Context(), s.Conn, "public", told)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	wantFinding(t, retention(0), docket.OK, "none", "")
	wantFinding(t, retention(day), docket.OK, "is empty", "")

	s.runs("r1")
	s.insertAt("r1", 1, time.Now().Add(-24*time.Hour-90*time.Minute))
	s.insertAt("r1", 2, time.Now().Add(-time.Hour))
	wantFinding(t, retention(day), docket.OK, "RETENTION_EVENTS is 24h0m0s; the oldest event is 25h30m0s old", "") // 10 %
	wantFinding(t, retention(day+time.Hour), docket.OK, "25h30m", "")
	wantFinding(t, retention(10*time.Hour), docket.Warn, "RETENTION_EVENTS is 10h0m0s, but the oldest event is 25h30m0s old", "event_retention")
	wantFinding(t, retention(22*time.Hour), docket.Warn, "22h0m0s, but", "pruner")
	wantFinding(t, retention(30*day), docket.OK, "25h30m", "") // a young installation

	s.do("DELETE FROM docket_events WHERE id = 1")
	wantFinding(t, retention(day), docket.Warn, "24h0m0s, but the oldest event is only 1h0m0s old and those below id 2 are gone", "too late")
	s.do("UPDATE docket_events SET inserted_at = now() + interval '1 hour'")
	wantFinding(t, retention(time.Minute), docket.Warn, "only 0s old", "")
	s.do("DROP TABLE docket_events")
	wantFinding(t, retention(day), docket.Fail, "read the oldest event", "")
}
