package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

func TestPausesForWhatNeedsAPerson(t *testing.T) {
	for code, hint := range map[codes.Code]string{
		codes.NotFound: "create the topic", codes.PermissionDenied: "roles/pubsub.publisher",
		codes.Unauthenticated: "credentials", codes.FailedPrecondition: "settings",
	} {
		t.Run(code.String(), func(t *testing.T) {
			server := newServer(t, "answers")
			s := open(t, Config{Topic: "answers"})
			server.failWith(code)
			b := sinktest.Batch(1, 50, 2)
			paused, ok := errors.AsType[*exporter.PauseError](s.Deliver(t.Context(), b))
			if !ok || paused.Reason != exporter.PausedSink || !strings.Contains(paused.Detail, hint) {
				t.Fatalf("got %v, want a pause that says %q", paused, hint)
			}
			server.fail(nil)
			deliver(t, s, b)
		})
	}
}

func TestDeletedTopicPauses(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	b := sinktest.Batch(1, 3, 2)
	deliver(t, s, b)
	if _, err := server.fake.GServer.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: name("answers")}); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*exporter.PauseError](s.Deliver(t.Context(), b)); !ok {
		t.Error("no pause after the topic was deleted")
	}
	server.create("answers")
	deliver(t, s, b)
}

// TestTokenOutageDoesNotPause: gRPC calls it Unauthenticated, but the server has
// not seen the request.
func TestTokenOutageDoesNotPause(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	client, err := pubsub.NewClient(t.Context(), project, option.WithEndpoint(server.addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())), option.WithGRPCDialOption(grpc.WithPerRPCCredentials(noToken{})))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.Close(); err != nil {
		t.Fatal(err)
	}
	s.client = client
	err = s.Deliver(t.Context(), sinktest.Batch(1, 1, 1))
	if status.Code(err) != codes.Unauthenticated {
		t.Fatalf("got %v, want the client to find no token", err)
	}
	expectPlain(t, err)
}

type noToken struct{}

func (noToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, errors.New("token endpoint: connection refused")
}
func (noToken) RequireTransportSecurity() bool { return false }

// expectPlain wants an error after which the batch comes again.
func expectPlain(t *testing.T, err error) {
	t.Helper()
	var pause *exporter.PauseError
	var rejected *exporter.RejectedError
	var refused *exporter.RefusedError
	if err == nil || errors.As(err, &pause) || errors.As(err, &rejected) || errors.As(err, &refused) {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestServersDelay(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	quota, err := status.New(codes.ResourceExhausted, "quota").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	b := sinktest.Batch(1, 2, 2)
	server.fail(func(context.Context, *pubsubpb.PublishRequest) error { return quota.Err() })
	if later, ok := errors.AsType[*exporter.RetryAfterError](s.Deliver(t.Context(), b)); !ok || later.After != 7*time.Second {
		t.Errorf("got %v, want a retry after 7s", later)
	}
	server.fail(func(_ context.Context, r *pubsubpb.PublishRequest) error {
		if r.Messages[0].OrderingKey == b.Events[0].RunID {
			return quota.Err()
		}
		return nil
	})
	if partial, ok := errors.AsType[*exporter.PartialError](s.Deliver(t.Context(), b)); !ok || partial.After != 7*time.Second {
		t.Errorf("got %v, want one run pending for 7s", partial)
	}
}

// refuse lets the server refuse what holds a message of the type.
func (s *server) refuse(kind string) {
	s.fail(func(_ context.Context, r *pubsubpb.PublishRequest) error {
		for _, m := range r.Messages {
			if m.Attributes["type"] == kind {
				return status.Error(codes.InvalidArgument, "does not fit the schema")
			}
		}
		return nil
	})
}

func TestRefusedEvent(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	b := sinktest.Batch(1, 3, 4)
	b.Events[5].Type = "poison" // seq 2 of the second run
	server.refuse("poison")

	err := s.Deliver(t.Context(), b)
	partial, ok := errors.AsType[*exporter.PartialError](err)
	if !ok || !sameEvents(partial.Pending, b.Events[4:8]) {
		t.Fatalf("got %v, want the run of the refused event pending", err)
	}
	var refused *exporter.RefusedError
	if errors.As(err, &refused) {
		t.Error("a partial answer is a refusal of the whole too")
	}
	b.Events = partial.Pending
	if err := s.Deliver(t.Context(), b); !errors.As(err, &refused) || refused.Class != exporter.ClassRefused {
		t.Fatalf("got %v, want a refusal that names nothing", err)
	}
	poison := b
	poison.Events = b.Events[1:2]
	rejected, ok := errors.AsType[*exporter.RejectedError](s.Deliver(t.Context(), poison))
	if !ok || len(rejected.Rejections) != 1 || !strings.Contains(rejected.Rejections[0].Reason, "does not fit the schema") {
		t.Fatalf("got %v, want the event named", rejected)
	}
	if text := rejected.Rejections[0].Reason; strings.Contains(text, string(b.Events[1].Payload)) || len(text) > 600 {
		t.Errorf("the reason is %q", text)
	}
}

// TestTopicThatRefusesEverything gives up one event at most: then it wants to
// see the topic accept something.
func TestTopicThatRefusesEverything(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	deliver(t, s, sinktest.Batch(1, 1, 1))
	server.failWith(codes.InvalidArgument)
	named := 0
	for seed := range uint64(20) {
		err := s.Deliver(t.Context(), sinktest.Batch(seed+2, 1, 1))
		if _, ok := errors.AsType[*exporter.RejectedError](err); ok {
			named++
		} else if _, ok := errors.AsType[*exporter.RefusedError](err); !ok {
			t.Fatalf("got %v", err)
		}
	}
	if named != 1 {
		t.Errorf("%d events were given up, want 1", named)
	}
}

func TestOnlyThePipelineTriesAgain(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded, codes.Canceled} {
		before := len(server.seen())
		server.failWith(code)
		expectPlain(t, s.Deliver(t.Context(), sinktest.Batch(1, 1, 3)))
		if n := len(server.seen()) - before; n != 1 {
			t.Errorf("%v: %d requests, want one", code, n)
		}
	}
}

func TestMissingMessageIDIsNoAcceptance(t *testing.T) {
	server := newServer(t, "answers")
	s := open(t, Config{Topic: "answers"})
	server.fake.SetAutoPublishResponse(false)
	for _, ids := range [][]string{{"1", "2"}, {"1", "2", ""}, nil} {
		server.fake.AddPublishResponse(&pubsubpb.PublishResponse{MessageIds: ids}, nil)
		err := s.Deliver(t.Context(), sinktest.Batch(1, 1, 3))
		expectPlain(t, err)
		if !errors.Is(err, errUncounted) {
			t.Errorf("got %v for ids %q", err, ids)
		}
	}
	server.fake.AddPublishResponse(&pubsubpb.PublishResponse{MessageIds: []string{"1", "2", "3"}}, nil)
	deliver(t, s, sinktest.Batch(1, 1, 3))
}

func TestLongServerMessageIsCut(t *testing.T) {
	f := &failure{err: fmt.Errorf("publish: %w", status.Error(codes.Internal, strings.Repeat("é", 2000)))}
	if text := f.Error(); len(text) > 510 || !strings.HasPrefix(text, "Internal: ") {
		t.Errorf("got %d bytes: %.40s", len(text), text)
	}
}
