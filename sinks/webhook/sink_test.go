package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestAcceptance runs the suite over HTTP. Each consumer has a path.
func TestAcceptance(t *testing.T) {
	server := newServer(t)
	sinktest.Run(t, sinktest.Harness{
		Open: func(t *testing.T, consumer string) exporter.Sink {
			cfg := server.config()
			cfg.URL = "http://" + server.addr + "/" + consumer
			return open(t, cfg)
		},
		Read: func(t *testing.T, consumer string) []sinktest.Record {
			return read(t, server, "/"+consumer, FormatJSON)
		},
		Break: func(*testing.T) func() {
			server.stop()
			return server.listen
		},
	})
}

// The envelope is the events' JSON within attributes that CloudEvents allows.
func TestCloudEvents(t *testing.T) {
	server := newServer(t)
	cfg := server.config()
	cfg.Format = FormatCloudEvents
	b := sinktest.Batch(5, 5, 4)
	b.Events[0].RunID, b.Events[0].Type = "\"quoted\"\n", "\x01"
	deliver(t, open(t, cfg), b)
	got := read(t, server, "/docket", FormatCloudEvents)
	bodies := map[string]string{}
	for _, r := range got {
		bodies[r.Key] = string(r.Body)
	}
	for _, e := range b.Events {
		if body := bodies[e.Identity().Key()]; body != string(e.AppendJSON(nil)) {
			t.Errorf("%s/%d came as %s", e.RunID, e.Seq, body)
		}
	}
}

func read(t *testing.T, s *server, path string, format Format) (records []sinktest.Record) {
	t.Helper()
	for _, r := range s.accepted() {
		if r.path != path {
			continue
		}
		body := r.body
		if format == FormatCloudEvents {
			body = unwrap(t, r)
		}
		var e struct {
			RunID   string `json:"run_id"`
			Seq     int64  `json:"seq"`
			EventID int64  `json:"event_id"`
		}
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatal(err)
		}
		records = append(records, sinktest.Record{
			Identity: exporter.Identity{RunID: e.RunID, Seq: e.Seq, EventID: e.EventID}, Key: r.header.Get("webhook-id"), Body: body,
		})
	}
	return records
}

// unwrap checks the attributes that CloudEvents 1.0 requires.
func unwrap(t *testing.T, r request) []byte {
	t.Helper()
	var e struct {
		SpecVersion, ID, Source, Type, Subject, DataContentType string
		Time                                                    time.Time
		Data                                                    json.RawMessage
	}
	if err := json.Unmarshal(r.body, &e); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	if got := r.header.Get("Content-Type"); got != "application/cloudevents+json" {
		t.Errorf("content type %q", got)
	}
	if e.SpecVersion != "1.0" || e.ID != r.key() || e.Source != "/docket" || !strings.HasPrefix(e.Type, "docket.") || e.Subject == "" ||
		e.DataContentType != "application/json" || e.Time.IsZero() {
		t.Errorf("envelope %+v", e)
	}
	return e.Data
}

// What a receiver reads from the headers, also of hostile texts.
func TestHeaders(t *testing.T) {
	server := newServer(t)
	cfg := server.config()
	cfg.Authorization = "Bearer sesame-open"
	s := open(t, cfg)
	for _, run := range []string{"r1", "a b", "cr\r\nX-Injected: yes", "naïve/日本語", "100%", "sha256:00", "\xff\x00", strings.Repeat("é", 150)} {
		server.forget()
		b, _ := one(t)
		e := &b.Events[0]
		e.RunID, e.Type, b.Attempt = run, "node_completed\n", 7
		deliver(t, s, b)
		got := server.accepted()[0].header
		want := map[string]string{
			"X-Idempotency-Key": e.Identity().Key(), "Webhook-Id": e.Identity().Key(), "X-Docket-Seq": fmt.Sprint(e.Seq),
			"X-Docket-Event-Type": "node_completed%0A", "X-Docket-Occurred-At": e.OccurredAt.UTC().Format("2006-01-02T15:04:05.000000Z"),
			"X-Attempt": "7", "Content-Type": "application/json", "Authorization": "Bearer sesame-open", "X-Injected": "",
		}
		for name, value := range want {
			if got.Get(name) != value {
				t.Errorf("run %q: %s is %q, want %q", run, name, got.Get(name), value)
			}
		}
		if text, err := url.PathUnescape(got.Get("X-Docket-Run-Id")); err != nil || text != run {
			t.Errorf("run %q: header %q decodes to %q, %v", run, got.Get("X-Docket-Run-Id"), text, err)
		}
	}
	b, _ := one(t)
	b.Events[0].RunID = strings.Repeat("é", 3000)
	deliver(t, s, b)
	got := server.accepted()
	if id := got[len(got)-1].header.Get("X-Docket-Run-Id"); len(id) != 71 || !strings.HasPrefix(id, "sha256:") {
		t.Errorf("a long run id is %q", id)
	}
}

// One event of a run is under way at a time, and as many runs as configured.
func TestRunsBesideEachOther(t *testing.T) {
	server := newServer(t)
	var mu sync.Mutex
	under := map[string]int{}
	var now, most atomic.Int64
	server.on(func(_ http.ResponseWriter, r request) bool {
		run := r.header.Get("X-Docket-Run-Id")
		mu.Lock()
		if under[run]++; under[run] > 1 {
			t.Errorf("two events of run %s at once", run)
		}
		mu.Unlock()
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(2 * time.Millisecond) // a receiver at work
		now.Add(-1)
		mu.Lock()
		under[run]--
		mu.Unlock()
		return false
	})
	cfg := server.config()
	cfg.Concurrency = 4
	deliver(t, open(t, cfg), sinktest.Batch(3, 20, 5))
	if n := most.Load(); n < 2 || n > 4 {
		t.Errorf("%d requests at once, want up to 4", n)
	}
	if n := len(server.accepted()); n != 100 {
		t.Errorf("%d requests", n)
	}
}

func TestClosed(t *testing.T) {
	server := newServer(t)
	s := open(t, server.config())
	b, _ := one(t)
	deliver(t, s, b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), b); err == nil {
		t.Error("a closed sink delivers")
	}
}
