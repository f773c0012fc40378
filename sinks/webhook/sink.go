package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/docket-exporter/exporter"
)

// Sink sends one consumer's events to a receiver.
type Sink struct {
	cfg    Config
	url    *url.URL
	signer signer
	dialer *dialer
	client *http.Client

	mu      sync.Mutex // one Deliver at a time
	closed  bool
	quiet   time.Time // the receiver has asked for no requests before
	refused refused
}

var _ exporter.Sink = (*Sink)(nil)

// refused is what an attempt has learnt of events that the receiver rejects and
// could not say yet, because it had to say which others were accepted.
type refused struct {
	uid     string
	number  int64
	attempt int // the one after which it is said
	list    []exporter.Rejection
}

// Open reads the configuration. It does not ask the receiver: one that is away
// is an answer of Deliver and Check.
func Open(cfg Config) (*Sink, error) {
	cfg = cfg.withDefaults()
	s, err := newSink(cfg)
	if err != nil {
		return nil, fmt.Errorf("open webhook sink: %w", err)
	}
	return s, nil
}

func newSink(cfg Config) (*Sink, error) {
	u, err := cfg.address()
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	sign, err := newSigner(cfg.Secrets)
	if err != nil {
		return nil, err
	}
	if _, err := cfg.TLS.config(u.Hostname()); err != nil {
		return nil, err
	}
	source, err := json.Marshal(cfg.Source)
	if err != nil {
		return nil, fmt.Errorf("encode source: %w", err)
	}
	cfg.Source = string(source)
	d := newDialer(cfg)
	return &Sink{cfg: cfg, url: u, signer: sign, dialer: d, client: d.client(cfg.Concurrency)}, nil
}

// Deliver returns nil once the receiver has answered 2xx to every event. The
// answers beside nil:
//
//   - *exporter.PauseError: the receiver's answer, or the address it has, needs
//     a person.
//   - *exporter.PartialError: some events are accepted; the others are pending,
//     refused for a while, rejected, or behind such an event of their run.
//   - *exporter.RejectedError: the receiver rejects these events, or they are
//     too large. When others were accepted in the same call this is the answer
//     to the next call, which sends nothing.
//   - *exporter.RetryAfterError: unavailable, with the receiver's own delay.
//   - any other error: unavailable, or the outcome is unknown.
func (s *Sink) Deliver(ctx context.Context, batch exporter.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.deliver(ctx, &batch); err != nil {
		return fmt.Errorf("deliver batch %d to %s: %w", batch.Number, s.url.Host, err)
	}
	return nil
}

func (s *Sink) deliver(ctx context.Context, batch *exporter.Batch) error {
	if s.closed {
		return errors.New("the sink is closed")
	}
	if err := ctx.Err(); err != nil || len(batch.Events) == 0 {
		return err
	}
	if list := s.learnt(batch); len(list) > 0 {
		return &exporter.RejectedError{Rejections: list}
	}
	if wait := time.Until(s.quiet); wait > 0 {
		return &exporter.RetryAfterError{After: wait, Err: errors.New("the receiver has asked for no requests until then")}
	}
	d := delivery{sink: s, attempt: batch.Attempt, runs: byRun(batch.Events)}
	d.send(ctx)
	return s.answer(ctx, batch, &d)
}

// learnt takes the rejections that the attempt before this one has left, of
// events that are offered again.
func (s *Sink) learnt(batch *exporter.Batch) (list []exporter.Rejection) {
	left := s.refused
	s.refused = refused{}
	if left.uid != batch.UID || left.number != batch.Number || left.attempt != batch.Attempt {
		return nil
	}
	offered := make(map[exporter.Identity]bool, len(batch.Events))
	for i := range batch.Events {
		offered[batch.Events[i].Identity()] = true
	}
	for _, r := range left.list {
		if offered[r.Event.Identity()] {
			list = append(list, r)
		}
	}
	return list
}

// Close ends the connections. Deliver fails afterwards. Closing again is fine.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.client.CloseIdleConnections()
	return nil
}
