package clickhouse

import (
	"encoding/json"
	"syscall"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestAcceptance runs the suite on the default table of a present server: each
// event is there once without FINAL.
func TestAcceptance(t *testing.T) {
	conn := connect(t, newServer.DSN())
	sinktest.Run(t, sinktest.Harness{
		Open: func(t *testing.T, consumer string) exporter.Sink {
			return open(t, Config{DSN: newServer.DSN(), Table: consumer, CreateTable: true})
		},
		Read: func(t *testing.T, consumer string) []sinktest.Record {
			return read(t, conn, "SELECT "+columnsOfDefaultTable+" FROM `"+consumer+"` ORDER BY run_id, seq, event_id")
		},
		Break: func(t *testing.T) func() {
			signal(t, newServer.Signal, syscall.SIGSTOP)
			return func() { signal(t, newServer.Signal, syscall.SIGCONT) }
		},
		Dedups: true,
	})
}

// TestAcceptanceOnOldServer runs the suite on a user's own table of a server
// without tokens: exact under FINAL.
func TestAcceptanceOnOldServer(t *testing.T) {
	conn := connect(t, oldServer.DSN())
	made := map[string]bool{}
	sinktest.Run(t, sinktest.Harness{
		Open: func(t *testing.T, consumer string) exporter.Sink {
			if !made[consumer] {
				ownTable(t, conn, consumer)
				made[consumer] = true
			}
			return open(t, Config{DSN: oldServer.DSN(), Table: consumer})
		},
		Read: func(t *testing.T, consumer string) []sinktest.Record {
			return read(t, conn, "SELECT run_id, toInt64(seq), event_id, type, step, node_id, channel_id, task_id, tenant_id, graph_id, graph_hash, "+
				"payload, metadata, occurred_at, inserted_at, toString(idempotency_key) FROM `"+consumer+"` FINAL ORDER BY run_id, seq, event_id")
		},
		Break: func(t *testing.T) func() {
			signal(t, oldServer.Signal, syscall.SIGSTOP)
			return func() { signal(t, oldServer.Signal, syscall.SIGCONT) }
		},
		Dedups: true,
	})
}

func signal(t *testing.T, send func(syscall.Signal) error, sig syscall.Signal) {
	t.Helper()
	if err := send(sig); err != nil {
		t.Fatal(err)
	}
}

const columnsOfDefaultTable = "run_id, seq, event_id, type, step, " +
	"toNullable(toString(node_id)), toNullable(toString(channel_id)), task_id, toNullable(toString(tenant_id)), " +
	"toNullable(toString(graph_id)), toNullable(toString(graph_hash)), payload, metadata, " +
	"concat(replaceOne(toString(occurred_at), ' ', 'T'), 'Z'), concat(replaceOne(toString(inserted_at), ' ', 'T'), 'Z'), idempotency_key"

// read selects the 16 columns of an event and makes of each row what
// exporter.Event.AppendJSON would.
func read(t *testing.T, conn driver.Conn, query string) []sinktest.Record {
	t.Helper()
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		if codeOf(err) == codeUnknownTable {
			return nil // nothing was delivered yet
		}
		t.Fatal(err)
	}
	defer rows.Close()
	var records []sinktest.Record
	for rows.Next() {
		var e struct {
			RunID     string          `json:"run_id"`
			Seq       int64           `json:"seq"`
			EventID   int64           `json:"event_id"`
			Type      string          `json:"type"`
			Step      int32           `json:"step"`
			Node      *string         `json:"node_id"`
			Channel   *string         `json:"channel_id"`
			Task      *string         `json:"task_id"`
			Tenant    *string         `json:"tenant_id"`
			Graph     *string         `json:"graph_id"`
			GraphHash *string         `json:"graph_hash"`
			Payload   json.RawMessage `json:"payload"`
			Metadata  json.RawMessage `json:"metadata"`
			Occurred  string          `json:"occurred_at"`
			Inserted  string          `json:"inserted_at"`
			Key       string          `json:"idempotency_key"`
		}
		if err := rows.Scan(&e.RunID, &e.Seq, &e.EventID, &e.Type, &e.Step, &e.Node, &e.Channel, &e.Task, &e.Tenant,
			&e.Graph, &e.GraphHash, &e.Payload, &e.Metadata, &e.Occurred, &e.Inserted, &e.Key); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, sinktest.Record{
			Identity: exporter.Identity{RunID: e.RunID, Seq: e.Seq, EventID: e.EventID}, Key: e.Key, Body: body,
		})
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return records
}
