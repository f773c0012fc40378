package docket_test

import (
	"errors"
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

func place(t *testing.T, text string) docket.Place {
	t.Helper()
	p, err := docket.ParsePlace(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (d *database) start(start string) string {
	d.t.Helper()
	p, err := docket.StartPosition(d.t.Context(), d.pool, "public", place(d.t, start))
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

func TestStartAtAnIDOrARun(t *testing.T) {
	d := open(t, docket.Options{})
	a, b := d.session(), d.session()
	a.runs("r1", "r2", "r2/9", "a:b")
	b.insert("r1", 1) // 1
	a.do("BEGIN")
	a.insert("r2", 1)  // 2, open
	b.insert("r1", 2)  // 3
	b.insert("a:b", 1) // 4
	b.insert("r2/9", 1)
	for start, want := range map[string]string{
		"id:1": "0", "id:3": "2-{[2,2]}", "id:6": "5-{[2,2]}", "3": "3",
		"run:r1": "0", "run:r1/2": "2-{[2,2]}", "run:a:b": "3-{[2,2]}", "run:r2/9/1": "4-{[2,2]}",
		"time:2026-01-31": "0", "time:2026-01-31T10:00Z": "0",
	} {
		if got := d.start(start); got != want {
			t.Errorf("start %s at %s, want %s", start, got, want)
		}
	}
	a.do("COMMIT")
}

func TestStartRefuses(t *testing.T) {
	d := open(t, docket.Options{})
	s := d.session()
	s.runs("r1")
	s.insert("r1", 1)
	for start, want := range map[string]string{
		"2":                   "docket_events_id_seq is at 1",
		"5-{[7,7]}":           "open id 7 lies above 5",
		"yesterday":           `"yesterday" is no place in the events`,
		"2026-13-01":          "is no place in the events",
		"2026-11-29 08:00:00": "is no place in the events",
		"id:x":                "want a whole number after id:",
		"id:3":                "docket_events_id_seq is at 1",
		"id:0":                "below every id",
		"id:-5":               "below every id",

		"id:-9223372036854775808": "below every id",

		"run:":       "want a run's id after run:",
		"run:nobody": `run "nobody" has no events here`,
		"run:r1/7":   `run "r1" has no event 7 here`,
		"time:noon":  "is no place in the events",
		"run:\xff":   "no text in the encoding of the database",
		"run:\xff/1": "no text in the encoding of the database",

		"time:0000-01-01T00:00Z": "is no place in the events",

		"-5": "below every id",
		"":   "is no place in the events",
	} {
		place, err := docket.ParsePlace(start)
		if err == nil {
			_, err = docket.StartPosition(t.Context(), d.pool, "public", place)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("start %q: %v, want %q", start, err, want)
			continue
		}
		if !errors.Is(err, docket.ErrStart) {
			t.Errorf("start %q: %v is not ErrStart", start, err)
		}
	}
}

func TestStartWithoutTables(t *testing.T) {
	_, err := docket.StartPosition(t.Context(), pgtest.PlainPool(t, pgtest.Database(t)), "public", place(t, "latest"))
	if err == nil || !strings.Contains(err.Error(), "DOCKET_SCHEMA") {
		t.Fatalf("error %v, want one that names DOCKET_SCHEMA", err)
	}
}
