package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// class is what the pipeline takes an answer for, in its own order.
func class(err error) string {
	if _, ok := errors.AsType[*exporter.PauseError](err); ok {
		return "pause"
	}
	if _, ok := errors.AsType[*exporter.RejectedError](err); ok {
		return "rejected"
	}
	if _, ok := errors.AsType[*exporter.PartialError](err); ok {
		return "partial"
	}
	if err != nil {
		return "unavailable"
	}
	return "accepted"
}

func TestStatuses(t *testing.T) {
	server := newServer(t)
	s := open(t, server.config())
	b, _ := one(t)
	want := map[int]string{408: "unavailable", 425: "unavailable", 429: "unavailable", 400: "rejected", 413: "rejected", 415: "rejected", 422: "rejected"}
	for status := 200; status < 600; status++ {
		class := want[status]
		switch {
		case class != "":
		case status < 300:
			class = "accepted"
		case status < 500:
			class = "pause"
		default:
			class = "unavailable"
		}
		want[status] = class
	}
	for _, status := range []int{
		200, 201, 202, 204, 226, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415,
		417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 507, 511, 520, 599,
	} {
		server.on(answerWith(status))
		err := s.Deliver(t.Context(), b)
		if got := class(err); got != want[status] {
			t.Errorf("%d is %s, want %s: %v", status, got, want[status], err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	server := newServer(t)
	b, _ := one(t)
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-3": 0, "soon": 0, "": 0, "999999": mostDelay, "99999999999999999999": 0,
		time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat):   mostDelay,
	} {
		server.on(func(w http.ResponseWriter, _ request) bool {
			w.Header().Set("Retry-After", text)
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		s := open(t, server.config())
		err := s.Deliver(t.Context(), b)
		later, ok := errors.AsType[*exporter.RetryAfterError](err)
		if ok != (want > 0) {
			t.Errorf("%q: got %v", text, err)
			continue
		}
		if ok && (later.After > want || later.After < want-5*time.Second) {
			t.Errorf("%q: wait %v, want %v", text, later.After, want)
		}
		if !ok {
			continue
		}
		asked := len(server.asked())
		if _, ok := errors.AsType[*exporter.RetryAfterError](s.Deliver(t.Context(), b)); !ok || len(server.asked()) != asked {
			t.Errorf("%q: the receiver is asked again before its delay is over", text)
		}
	}
}

// refuse answers status to the events for which it is set, by run/seq.
func refuse(status map[string]int) func(http.ResponseWriter, request) bool {
	return func(w http.ResponseWriter, r request) bool {
		code := status[r.header.Get("X-Docket-Run-Id")+"/"+r.header.Get("X-Docket-Seq")]
		if code != 0 {
			w.WriteHeader(code)
		}
		return code != 0
	}
}

// batch has runs a, b, c and d of four events each.
func batch() exporter.Batch {
	b := sinktest.Batch(9, 4, 4)
	for i := range b.Events {
		b.Events[i].RunID, b.Events[i].Seq = string(rune('a'+i/4)), int64(i%4+1)
	}
	return b
}

func names(events []exporter.Event) (list []string) {
	for _, e := range events {
		list = append(list, fmt.Sprintf("%s/%d", e.RunID, e.Seq))
	}
	return list
}

// Accepted events are not sent again: of a run whose second event is refused
// for a while, three are pending.
func TestPartlyAccepted(t *testing.T) {
	server := newServer(t)
	server.on(refuse(map[string]int{"b/2": 503}))
	s, b := open(t, server.config()), batch()
	err := s.Deliver(t.Context(), b)
	partial, ok := errors.AsType[*exporter.PartialError](err)
	if !ok || !slices.Equal(names(partial.Pending), []string{"b/2", "b/3", "b/4"}) || !strings.Contains(err.Error(), "503") {
		t.Fatalf("got %v", err)
	}
	server.on(nil)
	b.Events = partial.Pending
	b.Attempt++
	deliver(t, s, b)
	var got []string
	for _, r := range server.accepted() {
		if run := r.header.Get("X-Docket-Run-Id"); run == "b" {
			got = append(got, r.header.Get("X-Docket-Seq"))
		}
	}
	if len(server.accepted()) != 16 || !slices.Equal(got, []string{"1", "2", "3", "4"}) {
		t.Errorf("%d requests accepted, of run b %v", len(server.accepted()), got)
	}
}

// Some accepted, one rejected, one refused for a while: first what is accepted
// is said, then, without a request, what is rejected, and the rest goes on.
func TestAcceptedRejectedAndUnavailable(t *testing.T) {
	server := newServer(t)
	server.on(refuse(map[string]int{"a/2": 422, "b/1": 500}))
	s, b := open(t, server.config()), batch()
	partial, ok := errors.AsType[*exporter.PartialError](s.Deliver(t.Context(), b))
	if !ok || !slices.Equal(names(partial.Pending), []string{"a/2", "a/3", "a/4", "b/1", "b/2", "b/3", "b/4"}) {
		t.Fatalf("got %v", partial)
	}
	asked := len(server.asked())
	b.Events, b.Attempt = partial.Pending, b.Attempt+1
	rejected, ok := errors.AsType[*exporter.RejectedError](s.Deliver(t.Context(), b))
	if !ok || len(rejected.Rejections) != 1 || rejected.Rejections[0].Event.Identity() != b.Events[0].Identity() {
		t.Fatalf("got %v", rejected)
	}
	if r := rejected.Rejections[0]; r.Class != exporter.ClassRefused || r.Reason != "422 Unprocessable Entity" {
		t.Errorf("class %q, reason %q", r.Class, r.Reason)
	}
	if len(server.asked()) != asked {
		t.Error("the answer that was known has cost a request")
	}
	server.on(nil)
	b.Events, b.Attempt = b.Events[1:], b.Attempt+1
	deliver(t, s, b)
	if n := len(server.accepted()); n != 15 {
		t.Errorf("%d accepted, want all but one", n)
	}
}

// A rejection that an attempt has left is not said of another batch, nor much
// later of the same one.
func TestRejectionsDoNotOutliveTheirAttempt(t *testing.T) {
	for name, change := range map[string]func(*exporter.Batch){
		"another batch":    func(b *exporter.Batch) { b.Number++ },
		"another consumer": func(b *exporter.Batch) { b.UID = "other" },
		"a later attempt":  func(b *exporter.Batch) { b.Attempt++ },
	} {
		server := newServer(t)
		server.on(refuse(map[string]int{"a/2": 422}))
		s, b := open(t, server.config()), batch()
		partial, ok := errors.AsType[*exporter.PartialError](s.Deliver(t.Context(), b))
		if !ok {
			t.Fatal(name)
		}
		server.on(nil)
		b.Events, b.Attempt = partial.Pending, b.Attempt+1
		change(&b)
		if err := s.Deliver(t.Context(), b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rejected and unavailable with nothing accepted: the rejection is said, and
// the receiver's delay is kept by the sink itself.
func TestRejectedBesideRetryAfter(t *testing.T) {
	server := newServer(t)
	server.on(func(w http.ResponseWriter, r request) bool {
		if r.header.Get("X-Docket-Run-Id") == "a" {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	cfg := server.config()
	cfg.Concurrency = 1
	s, b := open(t, cfg), batch()
	rejected, ok := errors.AsType[*exporter.RejectedError](s.Deliver(t.Context(), b))
	if !ok || !slices.Equal(names([]exporter.Event{rejected.Rejections[0].Event}), []string{"a/1"}) {
		t.Fatalf("got %v", rejected)
	}
	if n := len(server.asked()); n != 2 {
		t.Errorf("%d requests, although the second answer asked for none", n)
	}
	b.Events, b.Attempt = b.Events[1:], b.Attempt+1
	if later, ok := errors.AsType[*exporter.RetryAfterError](s.Deliver(t.Context(), b)); !ok || later.After < 50*time.Second || len(server.asked()) != 2 {
		t.Errorf("got %v after %d requests", later, len(server.asked()))
	}
}

// Too large an event is never sent and costs only itself.
func TestTooLarge(t *testing.T) {
	server := newServer(t)
	cfg := server.config()
	cfg.MaxEventBytes = 5000
	s, b := open(t, cfg), batch()
	b.Events = b.Events[:1]
	b.Events[0].Payload = []byte(`"` + strings.Repeat("x", 5000) + `"`)
	rejected, ok := errors.AsType[*exporter.RejectedError](s.Deliver(t.Context(), b))
	if !ok || rejected.Rejections[0].Class != "too_large" || len(server.asked()) != 0 {
		t.Fatalf("got %v after %d requests", rejected, len(server.asked()))
	}
}

// A receiver that is gone is not asked once for every run.
func TestOutageEndsTheAttempt(t *testing.T) {
	server := newServer(t)
	server.on(answerWith(http.StatusBadGateway))
	err := open(t, server.config()).Deliver(t.Context(), sinktest.Batch(4, 200, 1))
	if n := len(server.asked()); class(err) != "unavailable" || n > outage+defaultConcurrency {
		t.Errorf("%d requests, %v", n, err)
	}
}

// A pause is said at once, names what to set, and is no PartialError.
func TestPause(t *testing.T) {
	server := newServer(t)
	server.on(refuse(map[string]int{"b/2": 401}))
	err := open(t, server.config()).Deliver(t.Context(), batch())
	pause, ok := errors.AsType[*exporter.PauseError](err)
	if !ok || class(err) != "pause" || pause.Reason != exporter.PausedSink || !strings.Contains(pause.Detail, "…_WEBHOOK_SECRETS") {
		t.Fatalf("got %v", err)
	}
}

// A request without an answer is unknown: it is sent again under the same key.
func TestTimeoutIsUnknown(t *testing.T) {
	server := newServer(t)
	cfg := server.config()
	cfg.Timeout = 100 * time.Millisecond
	hang := make(chan struct{})
	server.on(func(http.ResponseWriter, request) bool { <-hang; return false })
	s := open(t, cfg)
	b, e := one(t)
	err := s.Deliver(t.Context(), b)
	if class(err) != "unavailable" || !strings.Contains(err.Error(), "unknown") {
		t.Fatalf("got %v", err)
	}
	close(hang)
	deliver(t, s, b)
	for _, r := range server.accepted() {
		if r.key() != e.Identity().Key() {
			t.Errorf("key %s", r.key())
		}
	}
}

// Whatever the receiver says is bounded, and neither payload nor secrets of
// ours come back in it.
func TestReasons(t *testing.T) {
	server := newServer(t)
	cfg := server.config()
	cfg.Authorization = "Bearer hush-hush"
	cfg.URL = strings.Replace(cfg.URL, "://", "://user:hush-hush@", 1) + "?token=hush-hush"
	s := open(t, cfg)
	b, _ := one(t)
	b.Events[0].Payload = []byte(`{"card":"hush-hush-4929123456781234"}`)
	for name, said := range map[string]string{
		"plain":   "no such tenant\r\n\x00",
		"long":    strings.Repeat("é", 5000),
		"endless": strings.Repeat("z", 3<<20),
		"payload": `cannot read "hush-hush-4929123456781234" as a date`,
		"piece":   `bad value 4929123456781234`,
		"secret":  "what is Bearer hush-hush?",
	} {
		server.on(func(w http.ResponseWriter, _ request) bool {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(said))
			return true
		})
		rejected, ok := errors.AsType[*exporter.RejectedError](s.Deliver(t.Context(), b))
		if !ok {
			t.Fatal(name)
		}
		reason := rejected.Rejections[0].Reason
		if len([]rune(reason)) > 500 || strings.Contains(reason, "hush") || strings.Contains(reason, "4929") || strings.ContainsAny(reason, "\r\n\x00") {
			t.Errorf("%s: reason %q", name, reason)
		}
		if name == "plain" && reason != "422 Unprocessable Entity: no such tenant \x00" && reason != "422 Unprocessable Entity: no such tenant" {
			t.Errorf("reason %q", reason)
		}
	}
	server.stop()
	if err := s.Deliver(t.Context(), b); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
}

// Nor do they when the answer is not HTTP at all.
func TestAnswersThatCannotBeRead(t *testing.T) {
	server := newServer(t)
	cfg := server.config()
	cfg.Authorization = "Bearer hush-hush"
	cfg.URL += "?token=hush-hush"
	s := open(t, cfg)
	b, _ := one(t)
	b.Events[0].Payload = []byte(`{"card":"hush-hush"}`)
	for _, said := range []string{
		"POST /docket?token=hush-hush HTTP/1.1\r\n\r\n",
		"HTTP/1.1 hush-hush Not OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nBearer hush-hush\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: hush-hush\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: hush-hush\r\n\r\n",
		"hush-hush HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("hush-hush", 1000),
	} {
		server.on(func(w http.ResponseWriter, _ request) bool {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			_, _ = conn.Write([]byte(said))
			_ = conn.Close()
			return true
		})
		err := s.Deliver(t.Context(), b)
		if class(err) != "unavailable" || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "the answer cannot be read: ") {
			t.Errorf("%.40q: %v", said, err)
		}
	}
}

func TestContextEnded(t *testing.T) {
	server := newServer(t)
	b, _ := one(t)
	if err := open(t, server.config()).Deliver(canceled(t), b); class(err) != "unavailable" || len(server.asked()) != 0 {
		t.Errorf("got %v after %d requests", err, len(server.asked()))
	}
}
