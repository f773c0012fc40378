package pubsub

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

const project = "docket-test"

// server is the library's own Pub/Sub server behind a listener that can be
// closed and opened again, with the service's limits and with faults.
type server struct {
	t    *testing.T
	fake *pstest.Server // keeps topics and messages over a restart
	addr string

	mu     sync.Mutex
	grpc   *grpc.Server
	fault  func(context.Context, *pubsubpb.PublishRequest) error
	after  func(*pubsubpb.PublishRequest) error // once the messages are there
	sizes  []int                                // of the requests as they came, bytes
	grants []string                             // permissions; nil: the server knows none
}

// newServer starts a server and makes it the emulator of this test.
func newServer(t *testing.T, topics ...string) *server {
	t.Helper()
	s := &server{t: t, fake: pstest.NewServer(), addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(func() {
		s.stop()
		if err := s.fake.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("PUBSUB_EMULATOR_HOST", s.addr)
	for _, topic := range topics {
		s.create(topic)
	}
	return s
}

func (s *server) start() {
	s.t.Helper()
	var l net.Listener
	pgtest.Eventually(s.t, 10*time.Second, func() (err error) { // the address may be taken for a moment
		l, err = net.Listen("tcp", s.addr)
		return err
	})
	s.addr = l.Addr().String()
	g := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.UnaryInterceptor(s.intercept))
	pubsubpb.RegisterPublisherServer(g, &s.fake.GServer)
	pubsubpb.RegisterSubscriberServer(g, &s.fake.GServer)
	iampb.RegisterIAMPolicyServer(g, &policy{server: s})
	s.mu.Lock()
	s.grpc = g
	s.mu.Unlock()
	go func() { _ = g.Serve(l) }() // ends with stop
}

func (s *server) stop() {
	s.mu.Lock()
	g := s.grpc
	s.mu.Unlock()
	g.Stop()
}

// breakDown takes the server away until restore.
func (s *server) breakDown() (restore func()) {
	s.stop()
	return s.start
}

func (s *server) create(topic string) {
	s.t.Helper()
	if _, err := s.fake.GServer.CreateTopic(context.Background(), &pubsubpb.Topic{Name: name(topic)}); status.Code(err) != codes.AlreadyExists && err != nil {
		s.t.Fatal(err)
	}
}

func name(topic string) string { return "projects/" + project + "/topics/" + topic }

func (s *server) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	publish, ok := req.(*pubsubpb.PublishRequest)
	if !ok {
		return handler(ctx, req)
	}
	s.mu.Lock()
	s.sizes = append(s.sizes, proto.Size(publish))
	fault, after := s.fault, s.after
	s.mu.Unlock()
	if err := limits(publish); err != nil {
		s.t.Error(err)
		return nil, err
	}
	if fault != nil {
		if err := fault(ctx, publish); err != nil {
			return nil, err
		}
	}
	answer, err := handler(ctx, req)
	if err == nil && after != nil {
		err = after(publish)
	}
	return answer, err
}

// limits are those of the service, https://cloud.google.com/pubsub/quotas.
func limits(r *pubsubpb.PublishRequest) error {
	if n := proto.Size(r); n > 10_000_000 {
		return status.Errorf(codes.InvalidArgument, "request of %d bytes", n)
	}
	if n := len(r.Messages); n < 1 || n > 1000 {
		return status.Errorf(codes.InvalidArgument, "request of %d messages", n)
	}
	for _, m := range r.Messages {
		if m.OrderingKey == "" || len(m.OrderingKey) > 1024 || m.OrderingKey != r.Messages[0].OrderingKey {
			return status.Errorf(codes.InvalidArgument, "ordering key %.100q", m.OrderingKey)
		}
		for k, v := range m.Attributes {
			if len(k) > 256 || len(v) > 1024 || v == "" {
				return status.Errorf(codes.InvalidArgument, "attribute %s=%.100q", k, v)
			}
		}
	}
	return nil
}

// fail sets what goes wrong with publish requests; nil ends it.
func (s *server) fail(fault func(context.Context, *pubsubpb.PublishRequest) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *server) failWith(code codes.Code) {
	s.fail(func(context.Context, *pubsubpb.PublishRequest) error {
		return status.Error(code, "as the test wants it")
	})
}

// seen are the sizes of the publish requests that came.
func (s *server) seen() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sizes)
}

// messages are a topic's, in the order in which they were accepted.
func (s *server) messages(topic string) []*pstest.Message {
	return slices.DeleteFunc(s.fake.Messages(), func(m *pstest.Message) bool { return m.Topic != name(topic) })
}

// policy answers for permissions.
type policy struct {
	iampb.UnimplementedIAMPolicyServer
	server *server
}

func (p *policy) TestIamPermissions(_ context.Context, r *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if p.server.grants == nil {
		return nil, status.Error(codes.Unimplemented, "no permissions here")
	}
	return &iampb.TestIamPermissionsResponse{Permissions: slices.DeleteFunc(r.Permissions, func(want string) bool {
		return !slices.Contains(p.server.grants, want)
	})}, nil
}

func open(t *testing.T, cfg Config) *Sink {
	t.Helper()
	if cfg.Project == "" {
		cfg.Project = project
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
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
