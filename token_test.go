package exporter_test

import (
	"testing"

	exporter "github.com/docket-exporter/exporter"
)

// The same request has the same token; whatever differs gives another one.
func TestTokenCoversTheRequest(t *testing.T) {
	events := []exporter.Event{{RunID: "a", Seq: 1, ID: 7}, {RunID: "a", Seq: 2, ID: 8}, {RunID: "b", Seq: 1, ID: 9}}
	base := func() exporter.Batch {
		return exporter.Batch{UID: "u", Shape: "full", Number: 5, Attempt: 1, Events: events}
	}
	b := base()
	token := b.Token("columns")
	if b.Attempt++; b.Token("columns") != token {
		t.Error("another attempt has another token")
	}
	for name, change := range map[string]func(*exporter.Batch) string{
		"consumer": func(b *exporter.Batch) string { b.UID = "v"; return b.Token("columns") },
		"number":   func(b *exporter.Batch) string { b.Number++; return b.Token("columns") },
		"shape":    func(b *exporter.Batch) string { b.Shape = "none"; return b.Token("columns") },
		"sink":     func(b *exporter.Batch) string { return b.Token("other columns") },
		"fewer":    func(b *exporter.Batch) string { b.Events = b.Events[:2]; return b.Token("columns") },
		"other event": func(b *exporter.Batch) string {
			b.Events = []exporter.Event{events[0], events[1], {RunID: "b", Seq: 1, ID: 10}}
			return b.Token("columns")
		},
		"other order": func(b *exporter.Batch) string {
			b.Events = []exporter.Event{events[1], events[0], events[2]}
			return b.Token("columns")
		},
		"moved text": func(b *exporter.Batch) string { b.UID, b.Shape = "uf", "ull"; return b.Token("columns") },
	} {
		b := base()
		if change(&b) == token {
			t.Errorf("another %s has the same token", name)
		}
	}
}
