package pubsub

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// resize gives the event a payload with which it takes exactly so many bytes in
// an encoded request.
func resize(t *testing.T, e *exporter.Event, want int) {
	t.Helper()
	e.Payload = nil
	for size := want - 2000; ; size += want - encodedBytes(e) {
		e.Payload = append(append([]byte(`"`), bytes.Repeat([]byte("x"), size-2)...), '"')
		if encodedBytes(e) == want {
			return
		}
		if size > want {
			t.Fatalf("no payload makes %d bytes", want)
		}
	}
}

func TestSizesAroundTheLimit(t *testing.T) {
	server := newServer(t, "sizes")
	s := open(t, Config{Topic: "sizes"})
	for _, layout := range []struct {
		name         string
		runs, perRun int
	}{{"in one run", 1, 7}, {"in seven runs", 7, 1}} {
		t.Run(layout.name, func(t *testing.T) {
			before := len(server.messages("sizes"))
			b := sinktest.Batch(uint64(layout.runs), layout.runs, layout.perRun)
			resize(t, &b.Events[1], s.room-1)
			resize(t, &b.Events[3], s.room)
			resize(t, &b.Events[5], s.room+1)
			requests := len(server.seen())
			rejected, ok := errors.AsType[*exporter.RejectedError](s.Deliver(t.Context(), b))
			if !ok || len(rejected.Rejections) != 1 || rejected.Rejections[0].Event.Identity() != b.Events[5].Identity() || rejected.Rejections[0].Class != ClassTooLarge {
				t.Fatalf("got %v, want the largest event rejected as too large", rejected)
			}
			if n := len(server.seen()) - requests; n != 0 {
				t.Errorf("%d requests before the rejection", n)
			}
			b.Events = slices.Delete(b.Events, 5, 6)
			deliver(t, s, b)
			if largest := slices.Max(server.seen()[requests:]); largest != 10_000_000 {
				t.Errorf("the largest request takes %d bytes, want all of the limit", largest)
			}
			got := server.messages("sizes")[before:]
			if len(got) != 6 {
				t.Errorf("%d messages, want 6", len(got))
			}
		})
	}
}

func TestLargeBatchesAreSplit(t *testing.T) {
	for _, c := range []struct{ events, size, requests int }{
		{600, 20_000, 2},
		{2500, 100, 3},
		{1000, 100, 1},
		{1001, 100, 2},
		{3, 6_000_000, 3},
	} {
		t.Run(fmt.Sprintf("%d of %d bytes", c.events, c.size), func(t *testing.T) {
			server := newServer(t, "sizes")
			s := open(t, Config{Topic: "sizes"})
			b := sinktest.Batch(1, 1, c.events)
			for i := range b.Events {
				b.Events[i].Payload = []byte(`"` + strings.Repeat("x", c.size-2) + `"`)
			}
			deliver(t, s, b)
			if got := len(server.seen()); got != c.requests {
				t.Errorf("%d requests, want %d", got, c.requests)
			}
			if got := seqs(t, server, "sizes", b.Events[0].RunID); len(got) != c.events || !slices.IsSorted(got) {
				t.Errorf("%d messages, in order: %v", len(got), slices.IsSorted(got))
			}
		})
	}
}

// TestAtMostIsEnough: a request that is cut by the bound always fits.
func TestAtMostIsEnough(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(0, 1100), func(n int) string { return strings.Repeat("\x01", n) }))
	some := rapid.Map(text, func(s string) exporter.Text { return exporter.Text{Value: s, Present: true} })
	rapid.Check(t, func(t *rapid.T) {
		e := exporter.Event{
			ID: rapid.Int64().Draw(t, "id"), RunID: text.Draw(t, "run"), Seq: rapid.Int64().Draw(t, "seq"), Type: text.Draw(t, "type"), Step: rapid.Int32().Draw(t, "step"),
			NodeID: some.Draw(t, "node"), ChannelID: some.Draw(t, "channel"), TaskID: some.Draw(t, "task"),
			TenantID: some.Draw(t, "tenant"), GraphID: some.Draw(t, "graph"), GraphHash: some.Draw(t, "hash"),
			OccurredAt: time.UnixMicro(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "at")), InsertedAt: time.Unix(0, 0),
			Payload: []byte(rapid.SampledFrom([]string{"", "{}", `{"a":1}`}).Draw(t, "payload")),
		}
		if most, n := atMost(&e), encodedBytes(&e); n > most {
			t.Fatalf("takes %d bytes, at most %d were expected", n, most)
		}
		if err := limits(request(name("sizes"), []exporter.Event{e}, new([]byte))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMessage(t *testing.T) {
	e := sinktest.Batch(1, 1, 1).Events[0]
	m := message(&e, nil)
	want := map[string]string{
		"run_id": e.RunID, "seq": "1", "type": e.Type, "tenant_id": e.TenantID.Value, "graph_id": "crawler",
		"occurred_at": e.OccurredAt.Format("2006-01-02T15:04:05.000000Z07:00"), "idempotency_key": e.Identity().Key(),
	}
	for k, v := range want {
		if m.Attributes[k] != v {
			t.Errorf("attribute %s is %q, want %q", k, m.Attributes[k], v)
		}
	}
	if len(m.Attributes) != len(want) || m.OrderingKey != e.RunID {
		t.Errorf("attributes %v with ordering key %q", m.Attributes, m.OrderingKey)
	}

	e.RunID, e.TenantID, e.GraphID = strings.Repeat("r", 1024), exporter.Text{}, exporter.Text{Value: strings.Repeat("g", 1025), Present: true}
	m = message(&e, nil)
	if _, there := m.Attributes["tenant_id"]; there {
		t.Error("an absent tenant has an attribute")
	}
	if _, there := m.Attributes["graph_id"]; there {
		t.Error("a graph id over the limit has an attribute")
	}
	if m.OrderingKey != e.RunID || m.Attributes["run_id"] != e.RunID {
		t.Error("a run id at the limit is not as it is")
	}
	long, longer := strings.Repeat("r", 1025), strings.Repeat("r", 1026)
	if k := orderingKey(long); len(k) > 1024 || k == orderingKey(longer) || k != orderingKey(long) {
		t.Errorf("the ordering key of a long run id is %q", k)
	}
}
