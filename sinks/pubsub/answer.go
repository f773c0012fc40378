package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/docket-exporter/exporter"
)

// failure is a request that was not accepted. Its text is the server's code and
// message, cut to what a dead letter or a log line can take.
type failure struct {
	err  error
	sent bool // the server has seen the request
}

func (f *failure) Error() string {
	const most = 500
	text := f.err.Error()
	if s, ok := status.FromError(f.err); ok {
		text = s.Code().String() + ": " + s.Message()
	}
	if len(text) > most {
		cut := most
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

// Unwrap returns the client library's error.
func (f *failure) Unwrap() error { return f.err }

// refused says that the server does not take the request for what is in it.
func refused(err error) bool { return status.Code(err) == codes.InvalidArgument }

// needsPerson says that a request cannot go through until somebody changes
// something. A request that has not left for want of a token is not that: the
// place where tokens come from may be unavailable.
func needsPerson(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.sent && whatToDo(status.Code(err)) != ""
}

func whatToDo(c codes.Code) string {
	switch c {
	case codes.NotFound:
		return "create the topic, or correct …_PUBSUB_PROJECT and …_PUBSUB_TOPIC"
	case codes.PermissionDenied:
		return "give the exporter's identity roles/pubsub.publisher on the topic, and see that the project has billing and the Pub/Sub API enabled"
	case codes.Unauthenticated:
		return "renew the credentials, …_PUBSUB_CREDENTIALS_FILE or the machine's identity"
	case codes.FailedPrecondition:
		return "look at the topic's settings: encryption key, allowed regions, ingestion"
	}
	return ""
}

// retryDelay is the delay the server asks for, 0 for none.
func retryDelay(err error) time.Duration {
	s, ok := status.FromError(err)
	if !ok {
		return 0
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// answer is what the outcomes of the runs mean for the batch.
func (d *delivery) answer(ctx context.Context) error {
	var pending []exporter.Event
	var first error
	after, accepted, content := time.Duration(0), 0, true
	for i := range d.runs {
		r := &d.runs[i]
		accepted += r.accepted
		pending = append(pending, r.events[r.accepted:]...)
		if r.err == nil {
			continue
		}
		if needsPerson(r.err) {
			return pause(r.err)
		}
		if first == nil {
			first = r.err
		}
		content = content && refused(r.err)
		after = max(after, retryDelay(r.err))
	}
	if accepted > 0 {
		d.sink.accepts.Store(true)
	}
	switch {
	case len(pending) == 0:
		return nil
	case first == nil: // stopped between two requests
		first, content = ctx.Err(), false
	}
	switch {
	case accepted > 0:
		return &exporter.PartialError{Pending: pending, Err: first, After: after}
	case content:
		return d.sink.refusal(pending, first)
	case after > 0:
		return &exporter.RetryAfterError{Err: first, After: after}
	}
	return first
}

func pause(err error) error {
	return &exporter.PauseError{Reason: exporter.PausedSink, Detail: fmt.Sprintf("%v: %s", err, whatToDo(status.Code(err)))}
}

// refusal answers for events of which nothing was taken for what is in them. A
// single one is named when the topic takes others. Having named one, the sink
// wants to see another accepted before it names the next: when a topic begins
// to refuse everything, at most one event is given up.
func (s *Sink) refusal(events []exporter.Event, err error) error {
	if f, ok := errors.AsType[*failure](err); ok && len(events) == 1 && s.accepts.Swap(false) {
		return &exporter.RejectedError{Rejections: []exporter.Rejection{
			{Event: events[0], Class: exporter.ClassRefused, Reason: f.Error()},
		}}
	}
	return &exporter.RefusedError{Err: err, Class: exporter.ClassRefused}
}
