package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// secret is the one of the specification's examples.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// request is what a server has received.
type request struct {
	path   string
	header http.Header
	body   []byte
}

func (r request) key() string { return r.header.Get("X-Idempotency-Key") }

// server is a receiver that keeps every request that it accepts, and refuses
// those whose signature is wrong.
type server struct {
	t    *testing.T
	addr string
	http *http.Server

	mu    sync.Mutex
	reply func(w http.ResponseWriter, r request) bool // false: accept as usual
	all   []request                                   // in the order of their answers
	took  []request                                   // those accepted
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, addr: "127.0.0.1:0"}
	s.listen()
	t.Cleanup(s.stop)
	return s
}

func (s *server) listen() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.http = &http.Server{Handler: s}
	go s.http.Serve(l)
}

func (s *server) stop() { _ = s.http.Close() }

func (s *server) url() string { return "http://" + s.addr + "/docket" }

// on sets how the server answers from now on.
func (s *server) on(reply func(w http.ResponseWriter, r request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = reply
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := request{r.URL.Path, r.Header.Clone(), body}
	hook, err := standardwebhooks.NewWebhook(secret)
	if err == nil {
		err = hook.Verify(body, r.Header)
	}
	if err != nil {
		s.t.Errorf("the signature is wrong: %v", err)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	reply := s.reply
	s.mu.Unlock()
	if reply != nil && reply(w, got) {
		s.keep(got, false)
		return
	}
	s.keep(got, true)
}

func (s *server) keep(r request, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
	if accepted {
		s.took = append(s.took, r)
	}
}

// accepted returns the requests accepted so far, asked all of them.
func (s *server) accepted() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.took...)
}

func (s *server) asked() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.all...)
}

// forget drops what came before.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.took = nil, nil
}

var local = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func (s *server) config() Config {
	return Config{URL: s.url(), Secrets: []string{secret}, AllowPrivate: local}
}

// open opens a sink that is closed when the test ends.
func open(t *testing.T, cfg Config) *Sink {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func deliver(t *testing.T, s *Sink, b exporter.Batch) {
	t.Helper()
	if err := s.Deliver(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// answerWith answers every request with a status.
func answerWith(status int) func(http.ResponseWriter, request) bool {
	return func(w http.ResponseWriter, _ request) bool {
		w.WriteHeader(status)
		return true
	}
}

func one(t *testing.T) (exporter.Batch, exporter.Event) {
	t.Helper()
	b := sinktest.Batch(1, 1, 1)
	return b, b.Events[0]
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
