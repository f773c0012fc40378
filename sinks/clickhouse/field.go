package clickhouse

import (
	"time"

	"github.com/docket-exporter/exporter"
)

// field is a value of an event that a column may take. Exactly one of the
// functions is set.
type field struct {
	name     string
	required bool // without it rows cannot be told apart
	run      bool // the same in all events of a run

	text    func(*exporter.Event) *string // nil: absent; not kept
	number  func(*exporter.Event) int64
	json    func(*exporter.Event) *[]byte // empty: null; not kept
	instant func(*exporter.Event) *time.Time
}

// fields returns the values of an event under the names that their columns
// have; they are those of exporter.Event.AppendJSON.
func fields() []field {
	present := func(t *exporter.Text) *string {
		if t.Present {
			return &t.Value
		}
		return nil
	}
	return []field{
		{name: "run_id", required: true, text: func(e *exporter.Event) *string { return &e.RunID }},
		{name: "seq", required: true, number: func(e *exporter.Event) int64 { return e.Seq }},
		{name: "event_id", required: true, number: func(e *exporter.Event) int64 { return e.ID }},
		{name: "type", text: func(e *exporter.Event) *string { return &e.Type }},
		{name: "step", number: func(e *exporter.Event) int64 { return int64(e.Step) }},
		{name: "node_id", text: func(e *exporter.Event) *string { return present(&e.NodeID) }},
		{name: "channel_id", text: func(e *exporter.Event) *string { return present(&e.ChannelID) }},
		{name: "task_id", text: func(e *exporter.Event) *string { return present(&e.TaskID) }},
		{name: "tenant_id", run: true, text: func(e *exporter.Event) *string { return present(&e.TenantID) }},
		{name: "graph_id", run: true, text: func(e *exporter.Event) *string { return present(&e.GraphID) }},
		{name: "graph_hash", run: true, text: func(e *exporter.Event) *string { return present(&e.GraphHash) }},
		{name: "payload", json: func(e *exporter.Event) *[]byte { return &e.Payload }},
		{name: "metadata", json: func(e *exporter.Event) *[]byte { return &e.Metadata }},
		{name: "occurred_at", instant: func(e *exporter.Event) *time.Time { return &e.OccurredAt }},
		{name: "inserted_at", instant: func(e *exporter.Event) *time.Time { return &e.InsertedAt }},
		{name: "idempotency_key", text: func(e *exporter.Event) *string { key := e.Identity().Key(); return &key }},
	}
}
