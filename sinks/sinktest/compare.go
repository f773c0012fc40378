package sinktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/docket-exporter/exporter"
)

// Record is one event as a reader of the destination finds it.
type Record struct {
	Identity exporter.Identity // from where readers of this destination find it
	Key      string            // idempotency key, from where readers find it
	Body     []byte            // the event's JSON object, as in exporter.Event.AppendJSON
}

// expect compares what a reader sees with the events, all of which were
// accepted: none is missing, altered or foreign, and those of a run come in seq
// order at their first appearance. Without duplicates each is there once.
func expect(t *testing.T, got []Record, want []exporter.Event, duplicates bool) {
	t.Helper()
	events := make(map[exporter.Identity]*exporter.Event, len(want))
	for i := range want {
		events[want[i].Identity()] = &want[i]
	}
	seen := make(map[exporter.Identity]int, len(want))
	last := map[string]int64{}
	for _, r := range got {
		e := events[r.Identity]
		if e == nil {
			t.Errorf("a reader sees %.100q/%d (event %d), which was not delivered", r.Identity.RunID, r.Identity.Seq, r.Identity.EventID)
			continue
		}
		seen[r.Identity]++
		sameEvent(t, r, e)
		if seen[r.Identity] == 1 && r.Identity.Seq <= last[r.Identity.RunID] {
			t.Errorf("run %.100q: seq %d comes after %d", r.Identity.RunID, r.Identity.Seq, last[r.Identity.RunID])
		}
		last[r.Identity.RunID] = max(last[r.Identity.RunID], r.Identity.Seq)
	}
	for id := range events {
		switch n := seen[id]; {
		case n == 0:
			t.Errorf("%.100q/%d (event %d) was accepted and is missing", id.RunID, id.Seq, id.EventID)
		case n > 1 && !duplicates:
			t.Errorf("%.100q/%d (event %d) is there %d times", id.RunID, id.Seq, id.EventID, n)
		}
		if t.Failed() && len(events) > 100 {
			t.Fatalf("%d records for %d events", len(got), len(want))
		}
	}
}

// sameEvent compares values, with the text of numbers exact and the order of
// keys free.
func sameEvent(t *testing.T, r Record, e *exporter.Event) {
	t.Helper()
	if want := e.Identity().Key(); r.Key != want {
		t.Errorf("%.100q/%d has key %s, want %s", e.RunID, e.Seq, r.Key, want)
	}
	line := e.AppendJSON(nil)
	if bytes.Equal(r.Body, line) {
		return
	}
	// Not cmp.Diff: its time is exponential in the depth of the values.
	if !reflect.DeepEqual(parse(t, r.Body), parse(t, line)) {
		t.Errorf("%.100q/%d is another event:\n got %.2000s\nwant %.2000s", e.RunID, e.Seq, r.Body, line)
	}
}

func parse(t *testing.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Errorf("decode body %.300q: %v", data, err)
	}
	return v
}

// expectUnavailable wants an answer after which the same batch comes again.
func expectUnavailable(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("accepted, want an error")
	}
	if r, ok := errors.AsType[*exporter.RejectedError](err); ok {
		t.Errorf("events were rejected: %v", r)
	}
	if p, ok := errors.AsType[*exporter.PauseError](err); ok {
		t.Errorf("a person is asked for: %v", p)
	}
}
