package exporter_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

func jsonSample() exporter.Event {
	return exporter.Event{
		ID: 120345, RunID: "0197c8f2-7d1a-7cc3-a5a1-0f2f6f0c8a11", Seq: 7, Type: "node_completed", Step: 3,
		NodeID:     exporter.Text{Value: "fetch_page", Present: true},
		ChannelID:  exporter.Text{},
		TaskID:     exporter.Text{Value: "0197c8f2-7d1a-7cc3-a5a1-0f2f6f0c8a11:3:fetch_page", Present: true},
		TenantID:   exporter.Text{Value: "", Present: true},
		GraphID:    exporter.Text{Value: "crawler", Present: true},
		GraphHash:  exporter.Text{Value: "sha256:9f86d081884c7d65", Present: true},
		OccurredAt: time.Date(2026, 11, 29, 10, 11, 12, 123456000, time.UTC),
		InsertedAt: time.Date(2026, 11, 29, 12, 11, 12, 5000, time.FixedZone("", 2*3600)),
		Payload:    []byte(`{"attempt":1}`),
	}
}

func TestEventJSON(t *testing.T) {
	e := jsonSample()
	const want = `>{"run_id":"0197c8f2-7d1a-7cc3-a5a1-0f2f6f0c8a11","seq":7,"event_id":120345,"type":"node_completed","step":3,` +
		`"node_id":"fetch_page","channel_id":null,"task_id":"0197c8f2-7d1a-7cc3-a5a1-0f2f6f0c8a11:3:fetch_page",` +
		`"tenant_id":"","graph_id":"crawler","graph_hash":"sha256:9f86d081884c7d65",` +
		`"payload":{"attempt":1},"metadata":null,` +
		`"occurred_at":"2026-11-29T10:11:12.123456Z","inserted_at":"2026-11-29T10:11:12.000005Z",` +
		`"idempotency_key":"a85d1ae583040411b1d3f72dfe0c6fa76770abcfcf4cfb65fd6bec069909fa7a"}`
	if diff := cmp.Diff(want, string(e.AppendJSON([]byte(">")))); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestEventJSONStaysOnOneLine(t *testing.T) {
	e := jsonSample()
	e.RunID = "a\nb\r\u2028\"\\\x00\x7f"
	e.Payload = []byte("{\n\"n\":\n12345678901234567890123.50}\n")
	before := bytes.Clone(e.Payload)
	line := e.AppendJSON(nil)
	if bytes.ContainsRune(line, '\n') {
		t.Errorf("line break in %q", line)
	}
	if !bytes.Equal(before, e.Payload) {
		t.Errorf("the payload was changed to %q", e.Payload)
	}
	if !bytes.Contains(line, []byte("12345678901234567890123.50")) {
		t.Errorf("number text changed: %s", line)
	}
	if got := decodeEventJSON(t, line); got.RunID != e.RunID {
		t.Errorf("run id %q, want %q", got.RunID, e.RunID)
	}
}

// eventJSON is what a reader makes of an event's JSON.
type eventJSON struct {
	RunID     string          `json:"run_id"`
	Seq       int64           `json:"seq"`
	EventID   int64           `json:"event_id"`
	Type      string          `json:"type"`
	Step      int32           `json:"step"`
	NodeID    *string         `json:"node_id"`
	ChannelID *string         `json:"channel_id"`
	TaskID    *string         `json:"task_id"`
	TenantID  *string         `json:"tenant_id"`
	GraphID   *string         `json:"graph_id"`
	GraphHash *string         `json:"graph_hash"`
	Payload   json.RawMessage `json:"payload"`
	Metadata  json.RawMessage `json:"metadata"`
	Occurred  time.Time       `json:"occurred_at"`
	Inserted  time.Time       `json:"inserted_at"`
	Key       string          `json:"idempotency_key"`
}

func decodeEventJSON(t rapid.TB, data []byte) eventJSON {
	t.Helper()
	var got eventJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatalf("decode %q: %v", data, err)
	}
	return got
}

func expectedEventJSON(e exporter.Event) eventJSON {
	valid := func(s string) string { // what encoding/json makes of invalid UTF-8: one U+FFFD a byte
		var b strings.Builder
		for len(s) > 0 {
			r, n := utf8.DecodeRuneInString(s)
			b.WriteRune(r)
			s = s[n:]
		}
		return b.String()
	}
	text := func(t exporter.Text) *string {
		if !t.Present {
			return nil
		}
		s := valid(t.Value)
		return &s
	}
	value := func(b []byte) json.RawMessage {
		if len(b) == 0 {
			return json.RawMessage("null")
		}
		return b
	}
	return eventJSON{
		RunID: valid(e.RunID), Seq: e.Seq, EventID: e.ID, Type: valid(e.Type), Step: e.Step,
		NodeID: text(e.NodeID), ChannelID: text(e.ChannelID), TaskID: text(e.TaskID),
		TenantID: text(e.TenantID), GraphID: text(e.GraphID), GraphHash: text(e.GraphHash),
		Payload: value(e.Payload), Metadata: value(e.Metadata),
		Occurred: e.OccurredAt.Truncate(time.Microsecond), Inserted: e.InsertedAt.Truncate(time.Microsecond),
		Key: e.Identity().Key(),
	}
}

// hostileText draws texts from whole strings, raw bytes, and long clean runs with
// one strange byte at any offset.
func hostileText() *rapid.Generator[string] {
	oneStrangeByte := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 40).Draw(t, "clean")
		b := bytes.Repeat([]byte("x"), n+1)
		b[rapid.IntRange(0, n).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		return string(b)
	})
	raw := rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
	return rapid.OneOf(rapid.String(), raw, oneStrangeByte)
}

func TestEventJSONReadsBack(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) exporter.Text {
		if !rapid.Bool().Draw(t, "present") {
			return exporter.Text{}
		}
		return exporter.Text{Value: hostileText().Draw(t, "text"), Present: true}
	})
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		seconds := rapid.Int64Range(-62167219200, 253402300799).Draw(t, "seconds") // years 0 to 9999
		return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
	})
	value := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "empty") {
			return nil
		}
		b, err := json.Marshal(map[string]any{"k": hostileText().Draw(t, "v"), "n": rapid.Int64().Draw(t, "n")})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	rapid.Check(t, func(t *rapid.T) {
		e := exporter.Event{
			ID: rapid.Int64().Draw(t, "id"), Seq: rapid.Int64().Draw(t, "seq"), Step: rapid.Int32().Draw(t, "step"),
			RunID: hostileText().Draw(t, "run"), Type: hostileText().Draw(t, "type"),
			NodeID: text.Draw(t, "node"), ChannelID: text.Draw(t, "channel"), TaskID: text.Draw(t, "task"),
			TenantID: text.Draw(t, "tenant"), GraphID: text.Draw(t, "graph"), GraphHash: text.Draw(t, "hash"),
			OccurredAt: instant.Draw(t, "occurred"), InsertedAt: instant.Draw(t, "inserted"),
			Payload: value.Draw(t, "payload"), Metadata: value.Draw(t, "metadata"),
		}
		data := e.AppendJSON(nil)
		if !utf8.Valid(data) {
			t.Fatalf("not UTF-8: %q", data)
		}
		if i := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' }); i >= 0 {
			t.Fatalf("control character at %d in %q", i, data)
		}
		if diff := cmp.Diff(expectedEventJSON(e), decodeEventJSON(t, data)); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}

func TestEventJSONOfDistantTimes(t *testing.T) {
	e := jsonSample()
	e.OccurredAt = time.Date(12026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := e.AppendJSON(nil); !bytes.Contains(got, []byte(`"occurred_at":"12026-01-02T03:04:05.000000Z"`)) {
		t.Errorf("line %s", got)
	}
}

func TestEventJSONAllocatesNothing(t *testing.T) {
	e := jsonSample()
	e.Metadata = []byte(`{"checkpoint_seq":3}`)
	e.Seq = math.MaxInt64
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buf = e.AppendJSON(buf[:0]) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkEventJSON(b *testing.B) {
	e := jsonSample()
	e.Metadata = []byte(`{"checkpoint_seq":3,"checkpoint_type":"step_committed","graph_step":3,"park_reason":null}`)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendJSON(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}
