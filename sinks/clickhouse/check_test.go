package clickhouse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// eventTable makes a table with the given engine.
const eventTable = "CREATE TABLE `%s` (run_id String, seq Int64, event_id Int64) ENGINE = %s"

// TestCheckProvesDeduplication compares what Check says with what a forced
// double send leaves in the table itself.
func TestCheckProvesDeduplication(t *testing.T) {
	const (
		plain     = "MergeTree ORDER BY (run_id, seq, event_id) SETTINGS non_replicated_deduplication_window = 0"
		window    = "MergeTree ORDER BY (run_id, seq, event_id) SETTINGS non_replicated_deduplication_window = 100"
		replacing = "ReplacingMergeTree ORDER BY (run_id, seq, event_id) SETTINGS non_replicated_deduplication_window = 0"
		both      = "ReplacingMergeTree ORDER BY (run_id, seq, event_id) SETTINGS non_replicated_deduplication_window = 100"
	)
	cases := []struct {
		name, engine, settings, want string
		rows, final                  uint64 // of ten events after two sends
	}{
		{"plain", plain, "", "duplicates possible: ", 20, 0},
		{"window", window, "", "exact: ", 10, 0},
		{"replacing", replacing, "", "eventual: ", 20, 10},
		{"both", both, "", "exact: ", 10, 10},
		{"plain async", plain, "?async_insert=1", "duplicates possible: ", 20, 0},
		{"window async", window, "?async_insert=1", "exact: ", 10, 0},
		{"replacing async", replacing, "?async_insert=1", "eventual: ", 20, 10},
		{"both async", both, "?async_insert=1", "exact: ", 10, 10},
		{"not deduplicated", window, "?deduplicate_insert=disable", "duplicates possible: ", 20, 0},
	}
	conn := connect(t, newServer.DSN())
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table := tableOf(t, "events")
			exec(t, conn, fmt.Sprintf(eventTable, table, c.engine))
			s := open(t, Config{DSN: newServer.DSN() + c.settings, Table: table})
			findings, err := s.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !said(findings, c.want) {
				t.Errorf("want %q, got %+v", c.want, findings)
			}
			b := sinktest.Batch(1, 2, 5)
			deliver(t, s, b)
			deliver(t, s, b)
			if n := number(t, conn, "SELECT count() FROM `"+table+"`"); n != c.rows {
				t.Errorf("%d rows after two sends, want %d", n, c.rows)
			}
			if c.final > 0 {
				if n := number(t, conn, "SELECT count() FROM `"+table+"` FINAL"); n != c.final {
					t.Errorf("%d rows under FINAL, want %d", n, c.final)
				}
			}
			noScratch(t, "SELECT count() FROM system.tables WHERE name LIKE 'docket_exporter_check%'")
		})
	}
}

func noScratch(t *testing.T, query string) {
	t.Helper()
	if n := number(t, connect(t, newServer.DSN()), query); n != 0 {
		t.Errorf("%d scratch tables are left", n)
	}
}

// said reports whether a finding begins with the text.
func said(findings []exporter.Finding, text string) bool {
	for _, f := range findings {
		if strings.HasPrefix(f.Text, text) {
			return true
		}
	}
	return false
}

func TestCheckOnOldServer(t *testing.T) {
	conn := connect(t, oldServer.DSN())
	for engine, want := range map[string]string{
		"ReplacingMergeTree ORDER BY (run_id, seq, event_id)": "eventual: ",
		"MergeTree ORDER BY (run_id, seq)":                    "duplicates possible: ",
	} {
		table := tableOf(t, strings.Fields(engine)[0])
		exec(t, conn, fmt.Sprintf(eventTable, table, engine))
		findings, err := open(t, Config{DSN: oldServer.DSN(), Table: table}).Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !said(findings, want) {
			t.Errorf("%s: want %q, got %+v", engine, want, findings)
		}
	}
}

func TestCheckOfDefaultTable(t *testing.T) {
	table := tableOf(t, "events")
	s := open(t, Config{DSN: newServer.DSN(), Table: table, CreateTable: true})
	for _, when := range []string{"before it is made", "after it is made"} {
		findings, err := s.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Level != exporter.LevelOK {
				t.Errorf("%s: %+v", when, f)
			}
		}
		if !said(findings, "exact: ") {
			t.Errorf("%s: want exact, got %+v", when, findings)
		}
		deliver(t, s, sinktest.Batch(1, 1, 1))
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	conn := connect(t, newServer.DSN())
	const columns = "run_id String, seq Int64, event_id Int64"
	const engine = " ENGINE = MergeTree ORDER BY run_id"
	cases := map[string]struct{ create, want string }{
		"merging":  {"(" + columns + ") ENGINE = ReplacingMergeTree ORDER BY (run_id, seq)", "events are lost: "},
		"summing":  {"(" + columns + ") ENGINE = ReplacingMergeTree ORDER BY run_id", "events are lost: "},
		"clock":    {"(" + columns + ", exported_at DateTime DEFAULT now())" + engine, "column exported_at gets now()"},
		"refusing": {"(" + columns + ", CONSTRAINT some CHECK seq > 100)" + engine, "not proven: the table refuses"},
		"no key":   {"(run_id String, seq Int64)" + engine, "table TestCheckSaysWhatIsWrong_no_key cannot take events: column event_id is missing: define it as event_id Int64"},
		"uuid":     {"(run_id UUID, seq Int64, event_id Int64)" + engine, "table TestCheckSaysWhatIsWrong_uuid cannot take events: column run_id has type UUID"},
		"alias":    {"(" + columns[:len(columns)-len(", event_id Int64")] + ", event_id Int64 ALIAS seq)" + engine, "table TestCheckSaysWhatIsWrong_alias cannot take events: column event_id cannot be inserted into"},
		"memory":   {"(" + columns + ") ENGINE = Memory", "not proven: table TestCheckSaysWhatIsWrong_memory has engine Memory"},
	}
	for name, c := range cases {
		table := tableOf(t, strings.ReplaceAll(name, " ", "_"))
		exec(t, conn, "CREATE TABLE `"+table+"` "+c.create)
		findings, err := open(t, Config{DSN: newServer.DSN(), Table: table}).Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !said(findings, c.want) {
			t.Errorf("%s: want %q, got %+v", name, c.want, findings)
		}
	}
	findings, err := open(t, Config{DSN: newServer.DSN(), Table: "nowhere"}).Check(t.Context())
	if err != nil || !said(findings, "code 60: ") {
		t.Errorf("a table that is not there: %+v, %v", findings, err)
	}
	noScratch(t, "SELECT count() FROM system.tables WHERE name LIKE 'docket_exporter_check%'")
}

func TestReplicatedCopiesStayApart(t *testing.T) {
	const engine = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/events', '{replica}') ORDER BY run_id"
	if got := apart(engine, "db.scratch"); got != "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/events/db_scratch', '{replica}') ORDER BY run_id" {
		t.Errorf("got %s", got)
	}
	const plain = "ReplacingMergeTree ORDER BY run_id"
	if got := apart(plain, "scratch"); got != plain {
		t.Errorf("got %s", got)
	}
}
