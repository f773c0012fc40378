package clickhouse

import (
	"context"
	"maps"
	"slices"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// The digest that the server computes over a row is the one that we compute
// over its event, whatever types the columns have.
func TestDigestsAreTheServers(t *testing.T) {
	const odd = `CREATE TABLE odd (run_id FixedString(40), seq UInt32, event_id String, step Nullable(Int16), node_id String,
		channel_id FixedString(30), task_id Nullable(String), occurred_at DateTime, inserted_at DateTime64(3), payload Nullable(String), metadata String,
		idempotency_key FixedString(64), loaded_at DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY run_id`
	for _, c := range []struct {
		name, dsn, table string
		make             func(conn driver.Conn)
	}{
		{"default table", newServer.DSN(), "reader", func(conn driver.Conn) { exec(t, conn, DDL("reader", DDLOptions{})) }},
		{"odd types", newServer.DSN(), "odd", func(conn driver.Conn) { exec(t, conn, odd) }},
		{"old server", oldServer.DSN(), "reader", func(conn driver.Conn) { ownTable(t, conn, "reader") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := connect(t, c.dsn)
			c.make(conn)
			events := eventsToRead()
			cfg := Config{DSN: c.dsn, Table: c.table}
			deliver(t, open(t, cfg), exporter.Batch{UID: "reader", Number: 1, Events: events})
			for _, content := range []bool{true, false} {
				r := openToRead(t, cfg, content)
				compareDigests(t, r, events)
			}
		})
	}
}

// eventsToRead are usual events and such with texts of all lengths.
func eventsToRead() []exporter.Event {
	events := sinktest.Batch(7, 10, 20).Events
	for n := range 40 {
		e := events[n]
		e.ID = 80_000_000 + int64(n)
		e.NodeID, e.TaskID, e.ChannelID = exporter.Text{}, exporter.Text{}, exporter.Text{Present: n%2 == 0}
		e.Payload, e.Metadata = nil, slices.Concat([]byte(`{"ü":"`), slices.Repeat([]byte("x"), 13*n), []byte(`"}`))
		events = append(events, e)
	}
	return events
}

func compareDigests(t *testing.T, r *Reader, events []exporter.Event) {
	t.Helper()
	digest := whole(r.Digester())
	want, sum := map[exporter.Identity]uint64{}, uint64(0)
	for i := range events {
		d := digest(&events[i])
		want[events[i].Identity()], sum = d, sum+d
	}
	all := exporter.Range{Lo: 1, Hi: 1 << 40}
	rows, total := int64(0), uint64(0)
	if err := r.Sum(t.Context(), exporter.Ranges{all}, 12, func(_, n int64, sum uint64) { rows, total = rows+n, total+sum }); err != nil {
		t.Fatal(err)
	}
	if rows != int64(len(events)) || total != sum {
		t.Errorf("%d rows with the sum %x, want %d with %x", rows, total, len(events), sum)
	}
	var some exporter.Ranges
	for _, id := range slices.Sorted(maps.Keys(ids(events))) {
		some = append(some, exporter.Range{Lo: id, Hi: id})
	}
	if n, err := r.Count(t.Context(), some); err != nil || n != int64(len(events)) {
		t.Errorf("%d rows of the %d events, %v", n, len(events), err)
	}
	if n, err := r.Count(t.Context(), exporter.Ranges{all}.Minus(some)); err != nil || n != 0 {
		t.Errorf("%d rows of other events, %v", n, err)
	}
	changed := events[3]
	changed.Step++
	for want, e := range map[string]*exporter.Event{"": &events[3], "step": &changed} {
		if column, err := r.Difference(t.Context(), e); err != nil || column != want && len(r.texts) > 3 {
			t.Errorf("the first column that differs is %q, want %q, %v", column, want, err)
		}
	}
	seen := 0
	err := r.Rows(t.Context(), all, func(id exporter.Identity, digest uint64, _ bool) error {
		if seen++; want[id] != digest {
			t.Errorf("%v has the digest %x, want %x", id, digest, want[id])
		}
		return nil
	})
	if err != nil || seen != len(events) {
		t.Errorf("%d rows, %v", seen, err)
	}
	if err := r.Rows(t.Context(), exporter.Range{Lo: 1, Hi: 2}, func(exporter.Identity, uint64, bool) error { return context.Canceled }); err != nil {
		t.Errorf("rows outside of the range: %v", err)
	}
}

func ids(events []exporter.Event) map[int64]bool {
	ids := map[int64]bool{}
	for i := range events {
		ids[events[i].ID] = true
	}
	return ids
}

// Of two rows of an event that differ, the one that stays counts.
func TestReaderSettlesCopies(t *testing.T) {
	conn := connect(t, newServer.DSN())
	exec(t, conn, DDL("settled", DDLOptions{}))
	exec(t, conn, "SYSTEM STOP MERGES settled")
	cfg := Config{DSN: newServer.DSN(), Table: "settled"}
	events := sinktest.Batch(8, 2, 3).Events
	wrong := slices.Clone(events[:2])
	wrong[0].Payload = []byte(`"wrong"`)
	sink := open(t, cfg)
	deliver(t, sink, exporter.Batch{UID: "settled", Number: 1, Events: wrong})
	deliver(t, sink, exporter.Batch{UID: "settled", Number: 2, Events: events})
	r := openToRead(t, cfg, true)
	digest, copies := whole(r.Digester()), map[exporter.Identity]int{}
	err := r.Rows(t.Context(), exporter.Range{Lo: 1, Hi: 1 << 40}, func(id exporter.Identity, d uint64, _ bool) error {
		copies[id]++
		for i := range events {
			if events[i].Identity() == id && digest(&events[i]) != d {
				t.Errorf("%v: the earlier row counts", id)
			}
		}
		return nil
	})
	if err != nil || len(copies) != len(events) || copies[events[0].Identity()] != 1 || copies[events[1].Identity()] != 2 {
		t.Errorf("copies %v, %v", copies, err)
	}
}

func openToRead(t *testing.T, cfg Config, content bool) *Reader {
	t.Helper()
	r, err := OpenReader(t.Context(), cfg, content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// whole is the digest of an event with its run's columns.
func whole(event, run func(*exporter.Event) uint64) func(*exporter.Event) uint64 {
	return func(e *exporter.Event) uint64 {
		digest := event(e)
		if run != nil {
			digest += run(e)
		}
		return digest
	}
}
