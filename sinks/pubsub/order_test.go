package pubsub

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// deliverAll does with the answers what the pipeline does, without waiting, and
// returns the pending events of each PartialError.
func deliverAll(t *testing.T, s *Sink, b exporter.Batch) (pending [][]exporter.Event) {
	t.Helper()
	for range 5000 {
		err := s.Deliver(t.Context(), b)
		if err == nil {
			return pending
		}
		if partial, ok := errors.AsType[*exporter.PartialError](err); ok {
			pending = append(pending, partial.Pending)
			b.Events = partial.Pending
		}
	}
	t.Fatal("not accepted in 5000 attempts")
	return nil
}

// seqs lists the seq of a run's messages as they were accepted.
func seqs(t *testing.T, s *server, topic, run string) (list []int) {
	t.Helper()
	for _, m := range s.messages(topic) {
		if m.OrderingKey == run {
			seq, err := strconv.Atoi(m.Attributes["seq"])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, seq)
		}
	}
	return list
}

// inRequestsOfOne gives each event a request of its own.
func inRequestsOfOne(s *Sink, b exporter.Batch) {
	most := 0
	for i := range b.Events {
		most = max(most, atMost(&b.Events[i]))
	}
	s.room = most
}

func has(r *pubsubpb.PublishRequest, run, seq string) bool {
	return slices.ContainsFunc(r.Messages, func(m *pubsubpb.PubsubMessage) bool {
		return m.OrderingKey == run && m.Attributes["seq"] == seq
	})
}

// failOnce lets the first request that has the event fail.
func (s *server) failOnce(run, seq string, code codes.Code) {
	var once sync.Once
	s.fail(func(_ context.Context, r *pubsubpb.PublishRequest) (err error) {
		if has(r, run, seq) {
			once.Do(func() { err = status.Error(code, "once") })
		}
		return err
	})
}

func TestRunGoesOnInOrderAfterFailure(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unknown} {
		t.Run(code.String(), func(t *testing.T) {
			server := newServer(t, "orders")
			s := open(t, Config{Topic: "orders"})
			b := sinktest.Batch(1, 2, 5)
			inRequestsOfOne(s, b)
			failing, other := b.Events[0].RunID, b.Events[5].RunID
			server.failOnce(failing, "3", code)

			pending := deliverAll(t, s, b)
			if len(pending) != 1 || !sameEvents(pending[0], b.Events[2:5]) {
				t.Errorf("pending %d times, want once the events from the failed one on", len(pending))
			}
			if got := seqs(t, server, "orders", failing); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
				t.Errorf("the failing run arrived as %v", got)
			}
			if got := seqs(t, server, "orders", other); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
				t.Errorf("the other run arrived as %v", got)
			}
			if got := len(server.seen()); got != 11 {
				t.Errorf("%d requests, want one for each event and one again", got)
			}
		})
	}
}

func sameEvents(x, y []exporter.Event) bool {
	return slices.EqualFunc(x, y, func(a, b exporter.Event) bool { return a.Identity() == b.Identity() })
}

// TestOtherRunsAreAcceptedAtOnce: what happens to one run does not show in the
// others.
func TestOtherRunsAreAcceptedAtOnce(t *testing.T) {
	server := newServer(t, "orders")
	s := open(t, Config{Topic: "orders"})
	b := sinktest.Batch(1, 50, 5)
	failing := b.Events[0].RunID
	server.failOnce(failing, "3", codes.Unavailable)
	err := s.Deliver(t.Context(), b)
	partial, ok := errors.AsType[*exporter.PartialError](err)
	if !ok || !sameEvents(partial.Pending, b.Events[:5]) {
		t.Fatalf("got %v, want the failing run pending", err)
	}
	if got := len(server.messages("orders")); got != 49*5 {
		t.Errorf("%d messages of the other runs, want %d", got, 49*5)
	}
}

// TestUnknownOutcome: the server has the messages, and we never hear of it.
func TestUnknownOutcome(t *testing.T) {
	server := newServer(t, "orders")
	s := open(t, Config{Topic: "orders"})
	b := sinktest.Batch(1, 1, 4)
	inRequestsOfOne(s, b)
	var once sync.Once
	server.mu.Lock()
	server.after = func(r *pubsubpb.PublishRequest) (err error) {
		if has(r, b.Events[0].RunID, "2") {
			once.Do(func() { err = status.Error(codes.Unavailable, "connection reset") })
		}
		return err
	}
	server.mu.Unlock()
	deliverAll(t, s, b)
	if got := seqs(t, server, "orders", b.Events[0].RunID); !slices.Equal(got, []int{1, 2, 2, 3, 4}) {
		t.Errorf("arrived as %v, want the unanswered one twice and nothing before it again", got)
	}
	first, second := server.messages("orders")[1], server.messages("orders")[2]
	if first.Attributes["idempotency_key"] != second.Attributes["idempotency_key"] {
		t.Error("the two have different idempotency keys")
	}
}

// TestManyFailedRunsLeaveNothingBehind fails every fourth of many runs once:
// none stays paused, and the next batch of those runs needs one attempt.
func TestManyFailedRunsLeaveNothingBehind(t *testing.T) {
	const runs = 10_000
	server := newServer(t, "orders")
	s := open(t, Config{Topic: "orders"})
	b := sinktest.Batch(1, runs, 2)
	first, second := b, b
	first.Events = slices.DeleteFunc(slices.Clone(b.Events), func(e exporter.Event) bool { return e.Seq == 2 })

	var mu sync.Mutex
	fails, failed := map[string]bool{}, 0
	for i := 0; i < runs; i += 4 {
		fails[first.Events[i].RunID] = true
	}
	second.Events = slices.DeleteFunc(slices.Clone(b.Events), func(e exporter.Event) bool { return e.Seq == 1 || !fails[e.RunID] })
	server.fail(func(_ context.Context, r *pubsubpb.PublishRequest) error {
		mu.Lock()
		defer mu.Unlock()
		if key := r.Messages[0].OrderingKey; fails[key] {
			delete(fails, key)
			failed++
			return status.Error(codes.Unavailable, "once for each run")
		}
		return nil
	})
	deliverAll(t, s, first)
	if failed != runs/4 {
		t.Errorf("%d runs have failed, want %d", failed, runs/4)
	}
	deliver(t, s, second)
	got := map[string][]string{}
	for _, m := range server.messages("orders") {
		got[m.OrderingKey] = append(got[m.OrderingKey], m.Attributes["seq"])
	}
	again := 0
	for run, list := range got {
		if slices.Equal(list, []string{"1", "2"}) {
			again++
		} else if !slices.Equal(list, []string{"1"}) {
			t.Fatalf("run %s arrived as %v", run, list)
		}
	}
	if again != runs/4 {
		t.Errorf("%d of the failed runs went on, want %d", again, runs/4)
	}
	if len(got) != runs {
		t.Errorf("%d runs arrived, want %d", len(got), runs)
	}
}
