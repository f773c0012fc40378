package pubsub

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestServerThatIsGoneIsNotAskedForEveryRun also comes back: with the same
// instance.
func TestServerThatIsGoneIsNotAskedForEveryRun(t *testing.T) {
	server := newServer(t, "bounds")
	s := open(t, Config{Topic: "bounds", MaxRequests: 10})
	server.failWith(codes.Unavailable)
	b := sinktest.Batch(1, 1000, 1)
	expectPlain(t, s.Deliver(t.Context(), b))
	if n := len(server.seen()); n > outage+10 {
		t.Errorf("%d requests at a server that fails all", n)
	}
	server.fail(nil)
	server.stop()
	expectPlain(t, s.Deliver(t.Context(), b))
	server.start()
	pgtest.Until(t, 20*time.Second, "the server's return", func() bool { return s.Deliver(t.Context(), b) == nil })
	keys := map[string]bool{} // part of the batch may have been accepted before the whole was
	for _, m := range server.messages("bounds") {
		keys[m.Attributes["idempotency_key"]] = true
	}
	if len(keys) != len(b.Events) {
		t.Errorf("%d different messages, want %d", len(keys), len(b.Events))
	}
}

// hang holds every request until its caller leaves.
func (s *server) hang() (held func() int) {
	var mu sync.Mutex
	n := 0
	s.fail(func(ctx context.Context, _ *pubsubpb.PublishRequest) error {
		mu.Lock()
		n++
		mu.Unlock()
		<-ctx.Done()
		mu.Lock()
		n--
		mu.Unlock()
		return ctx.Err()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestNothingGoesOnAfterTheContext(t *testing.T) {
	server := newServer(t, "bounds")
	s := open(t, Config{Topic: "bounds", MaxRequests: 10})
	held := server.hang()
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- s.Deliver(ctx, sinktest.Batch(1, 100, 5)) }()
	pgtest.Until(t, 20*time.Second, "ten requests", func() bool { return held() == 10 })
	cancel()
	began := time.Now()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		expectPlain(t, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Deliver returned %v after its context", took)
	}
	pgtest.Until(t, 20*time.Second, "the requests to be cancelled", func() bool { return held() == 0 })
	if n := len(server.seen()); n != 10 {
		t.Errorf("%d requests, want none after the context has ended", n)
	}
}

// TestServerThatDoesNotAnswer costs a timeout or two, not one for each
// run.
func TestServerThatDoesNotAnswer(t *testing.T) {
	server := newServer(t, "bounds")
	s := open(t, Config{Topic: "bounds", MaxRequests: 20, RequestTimeout: time.Second})
	server.hang()
	began := time.Now()
	expectPlain(t, s.Deliver(t.Context(), sinktest.Batch(1, 1000, 1)))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Deliver took %v with timeouts of a second", took)
	}
}

func TestRequestsUnderWayAreBounded(t *testing.T) {
	const requests, most = 25, 13_000_000
	server := newServer(t, "bounds")
	small, large := sinktest.Batch(1, 200, 1), sinktest.Batch(2, 8, 1)
	for i := range large.Events {
		resize(t, &large.Events[i], 6_000_000)
	}
	for _, c := range []struct {
		name  string
		batch exporter.Batch
		wait  int // so many can be under way together
	}{{"by number", small, requests}, {"by bytes", large, 2}} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{Topic: "bounds", MaxRequests: requests, MaxOutstandingBytes: most})
			var mu sync.Mutex
			count, bytes, peak, peakBytes := 0, 0, 0, 0
			full := make(chan struct{}) // closed a while after as many as allowed have come: time for more to come
			server.fail(func(ctx context.Context, r *pubsubpb.PublishRequest) error {
				size := proto.Size(r)
				mu.Lock()
				count, bytes = count+1, bytes+size
				if count == c.wait && peak < c.wait {
					time.AfterFunc(100*time.Millisecond, func() { close(full) })
				}
				peak, peakBytes = max(peak, count), max(peakBytes, bytes)
				mu.Unlock()
				select {
				case <-full:
				case <-ctx.Done():
				}
				mu.Lock()
				count, bytes = count-1, bytes-size
				mu.Unlock()
				return nil
			})
			deliver(t, s, c.batch)
			if peak != c.wait || peakBytes > most {
				t.Errorf("%d requests with %d bytes were under way, want %d with at most %d", peak, peakBytes, c.wait, most)
			}
		})
	}
}
