package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"cloud.google.com/go/pubsub/v2"
	"golang.org/x/sync/semaphore"

	"github.com/docket-exporter/exporter"
)

// Sink publishes one consumer's events. Deliver is called by one caller at a
// time.
type Sink struct {
	cfg    Config
	topic  string // full name
	room   int    // bytes for messages in a request
	client *pubsub.Client
	bytes  *semaphore.Weighted // of requests under way
	codec  codec
	memory sync.Pool // *[]byte, of requests that are answered

	// accepts says that the topic has taken a message since the last one that
	// was rejected: what it refuses alone is then at fault itself.
	accepts atomic.Bool
	closed  atomic.Bool
}

var _ exporter.Sink = (*Sink)(nil)

// Open makes a client for the topic. It finds the credentials and does not ask
// the server: Check does. The errors name what to set.
func Open(ctx context.Context, cfg Config) (*Sink, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open pubsub sink: %w", err)
	}
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("open pubsub sink: %w", err)
	}
	client, err := pubsub.NewClient(ctx, cfg.Project, options...)
	if err != nil {
		return nil, fmt.Errorf("open pubsub sink of topic %s: set …_PUBSUB_CREDENTIALS_FILE or give the machine an identity: %w", cfg.topic(), err)
	}
	return &Sink{
		cfg: cfg, topic: cfg.topic(), room: room(cfg.topic()),
		client: client, codec: newCodec(), bytes: semaphore.NewWeighted(cfg.MaxOutstandingBytes),
	}, nil
}

// Deliver returns nil once the server has given every event's message an id.
//
// Its other answers: *exporter.RejectedError, before anything is sent, with the
// events that no request has room for; *exporter.PartialError with the events
// that have no id yet, in order, when others have one; *exporter.PauseError
// when topic, permissions or credentials are not what they must be;
// *exporter.RefusedError when the server takes nothing because of what is in
// it, and *exporter.RejectedError when that is a single event and the topic has
// just taken others. Any other error means unavailable.
func (s *Sink) Deliver(ctx context.Context, batch exporter.Batch) error {
	if err := s.deliver(ctx, batch.Events); err != nil {
		return fmt.Errorf("deliver batch %d to %s: %w", batch.Number, s.topic, err)
	}
	return nil
}

func (s *Sink) deliver(ctx context.Context, events []exporter.Event) error {
	if err := ctx.Err(); err != nil || len(events) == 0 {
		return err
	}
	if rejections := tooLarge(events, s.room); len(rejections) > 0 {
		return &exporter.RejectedError{Rejections: rejections}
	}
	d := delivery{sink: s, runs: byRun(events)}
	d.publish(ctx)
	return d.answer(ctx)
}

// Close ends the connections. Deliver fails afterwards. Closing again is fine.
func (s *Sink) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("close pubsub sink of topic %s: %w", s.topic, err)
	}
	return nil
}
