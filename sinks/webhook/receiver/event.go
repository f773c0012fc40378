package receiver

import (
	"encoding/json"
	"fmt"
	"mime"
	"time"
)

// Event is one event of a Docket run, as the exporter's docs describe it.
// Pointers are nil where the event has no such text.
type Event struct {
	RunID          string          `json:"run_id"`
	Seq            int64           `json:"seq"` // 1, 2, 3… within the run
	EventID        int64           `json:"event_id"`
	Type           string          `json:"type"`
	Step           int32           `json:"step"`
	NodeID         *string         `json:"node_id"`
	ChannelID      *string         `json:"channel_id"`
	TaskID         *string         `json:"task_id"`
	TenantID       *string         `json:"tenant_id"`
	GraphID        *string         `json:"graph_id"`
	GraphHash      *string         `json:"graph_hash"`
	Payload        json.RawMessage `json:"payload"`
	Metadata       json.RawMessage `json:"metadata"`
	OccurredAt     time.Time       `json:"occurred_at"` // judge by this whether an old event still matters
	InsertedAt     time.Time       `json:"inserted_at"`
	IdempotencyKey string          `json:"idempotency_key"` // the same however often the event comes

	Attempt int `json:"-"` // from the header X-Attempt, which is not signed; 0 when it has none
}

// parse reads a verified body, bare or within a CloudEvents envelope.
func parse(contentType string, body []byte) (Event, error) {
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "application/cloudevents+json" {
		var envelope struct {
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(body, &envelope); err != nil {
			return Event{}, fmt.Errorf("read CloudEvents envelope: %w", err)
		}
		body = envelope.Data
	}
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}
