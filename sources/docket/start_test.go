package docket_test

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

// insertAt adds one event with its inserted_at and returns its id.
func (s *session) insertAt(run string, seq int, at time.Time) int64 {
	s.t.Helper()
	id := s.insert(run, seq)
	s.do(`UPDATE docket_events SET inserted_at = $1 WHERE id = $2`, at, id)
	return id
}

func (d *database) start(start string) string {
	d.t.Helper()
	p, err := docket.StartPosition(d.t.Context(), d.pool, "public", start)
	if err != nil {
		d.t.Fatalf("start %s: %v", start, err)
	}
	d.at = p
	return p.String()
}

func TestStartOnAnEmptyTable(t *testing.T) {
	d := open(t, docket.Options{})
	for _, start := range []string{"earliest", "latest", "0", "2026-11-29", "2026-11-29T08:00:00+01:00"} {
		if got := d.start(start); got != "0" {
			t.Errorf("start %s at %s, want 0", start, got)
		}
	}
}

func TestStartEarliest(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	s.insert("r1", 1)
	s.insert("r1", 2)
	s.do(`DELETE FROM docket_events WHERE id = 1`)
	if got := d.start("earliest"); got != "0" {
		t.Errorf("start at %s, want 0: id 1 may have been in flight", got)
	}
	s.do(`UPDATE docket_events SET id = -5`)
	if got := d.start("earliest"); got != "-6" {
		t.Errorf("start at %s, want -6: below the lowest id", got)
	}
}

func TestStartLatestKeepsWhatIsInFlightOpen(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	b.insert("r2", 1)
	a.do("BEGIN")
	a.insert("r1", 1)
	b.do("SELECT nextval('docket_events_id_seq')")
	b.insert("r2", 2)
	if got := d.start("latest"); got != "4-{[2,3]}" {
		t.Fatalf("start at %s, want 4-{[2,3]}", got)
	}
	b.insert("r2", 3)
	a.do("COMMIT")
	d.drain()
	d.wantGot("r1/1", "r2/3")
	d.wantAt("5")
}

func TestStartLatestLooksAtTheLastHundredThousandIDs(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	s.insert("r1", 1)
	s.do("SELECT setval('docket_events_id_seq', 150000)")
	s.insert("r1", 2)
	if got := d.start("latest"); got != "150001-{[50002,150000]}" {
		t.Fatalf("start at %s", got)
	}
}

func TestStartAtATime(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for i, minute := range []int{0, 10, 40, 20, 30, 50} { // not in the order of ids
		s.insertAt("r1", i+1, noon.Add(time.Duration(minute)*time.Minute))
	}
	for start, want := range map[string]string{
		"2026-11-28":                     "0",
		"2026-11-28T12:00:00Z":           "0",
		"2026-11-28T12:00:00.000001Z":    "1",
		"2026-11-28T12:20:00Z":           "2",
		"2026-11-28T13:40:00.5+01:00":    "5",
		"2026-11-28T12:50:00.000000001Z": "6",
		"2026-11-29":                     "6",
	} {
		if got := d.start(start); got != want {
			t.Errorf("start %s at %s, want %s", start, got, want)
		}
	}
}

// A transaction that is open at the start may hold a lower id than every
// visible event of the time.
func TestStartAtATimeKeepsWhatIsInFlightOpen(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2")
	b.insertAt("r2", 1, time.Now().Add(-time.Hour))
	a.do("BEGIN")
	a.insert("r1", 1)
	b.insert("r2", 2)
	if got := d.start(time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)); got != "2-{[2,2]}" {
		t.Fatalf("start at %s, want 2-{[2,2]}", got)
	}
	a.do("COMMIT")
	d.drain()
	d.wantGot("r1/1", "r2/2")
}

func TestStartAtAPosition(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	for seq := range 5 {
		s.insert("r1", seq+1)
	}
	for _, start := range []string{"5", "0", "4-{[2,3]}"} {
		if got := d.start(start); got != start {
			t.Errorf("start %s at %s", start, got)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	s.insert("r1", 1)
	for start, want := range map[string]string{
		"2":                   "docket_events_id_seq is at 1",
		"5-{[7,7]}":           "open id 7 lies above 5",
		"yesterday":           `start "yesterday" is no place in the events`,
		"2026-13-01":          "is no place in the events",
		"2026-11-29 08:00:00": "is no place in the events",
		"":                    "is no place in the events",
	} {
		_, err := docket.StartPosition(t.Context(), d.pool, "public", start)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("start %q: %v, want %q", start, err, want)
			continue
		}
		for _, value := range []string{"CONSUMER_…_START", "earliest", "latest", "120345", "2026-11-29T08:00:00Z"} {
			if !strings.Contains(err.Error(), value) {
				t.Errorf("start %q: %v does not name %s", start, err, value)
			}
		}
	}
}

func TestStartWithoutTables(t *testing.T) {
	_, err := docket.StartPosition(t.Context(), readPool(t, pgtest.Database(t)), "public", "latest")
	if err == nil || !strings.Contains(err.Error(), "DOCKET_SCHEMA") {
		t.Fatalf("error %v, want one that names DOCKET_SCHEMA", err)
	}
}
