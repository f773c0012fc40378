package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter"
)

const (
	// mostExcerpt is how many bytes of an answer are looked at for a reason.
	mostExcerpt = 2000
	// mostDrained is how many bytes of an answer are read so that its connection
	// can be used again.
	mostDrained = 256 << 10
)

// post sends one event once. Nil means that the receiver has accepted it.
//
// net/http itself sends a request a second time when a connection that it had
// kept alive turns out to be closed before any answer: it does so because of
// the idempotency key, with the same bytes.
func (s *Sink) post(ctx context.Context, e *exporter.Event, attempt int) *refusal {
	body, contentType := s.cfg.body(e)
	if len(body) > s.cfg.MaxEventBytes {
		return &refusal{kind: rejected, class: "too_large", text: fmt.Sprintf("the body has %d bytes, more than the %d that are sent", len(body), s.cfg.MaxEventBytes)}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String(), bytes.NewReader(body))
	if err != nil {
		return unanswered(err)
	}
	request.Header.Set("Content-Type", contentType)
	if err := s.head(request.Header, e, attempt, body); err != nil {
		return unanswered(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return unanswered(err)
	}
	defer response.Body.Close()
	excerpt, _ := io.ReadAll(io.LimitReader(response.Body, mostExcerpt)) // the status has decided
	_, _ = io.CopyN(io.Discard, response.Body, mostDrained)
	return s.judge(response, excerpt, e)
}

// head sets the headers that say which event this is, and the signature.
func (s *Sink) head(h http.Header, e *exporter.Event, attempt int, body []byte) error {
	key := e.Identity().Key()
	h.Set("User-Agent", "docket-exporter")
	h.Set("X-Idempotency-Key", key)
	h.Set("X-Docket-Run-Id", encodeText(e.RunID))
	h.Set("X-Docket-Seq", strconv.FormatInt(e.Seq, 10))
	h.Set("X-Docket-Event-Type", encodeText(e.Type))
	h.Set("X-Docket-Occurred-At", stamp(e.OccurredAt))
	h.Set("X-Attempt", strconv.Itoa(attempt))
	if s.cfg.Authorization != "" {
		h.Set("Authorization", s.cfg.Authorization)
	}
	return s.signer.sign(h, key, time.Now(), body)
}

// unanswered is what it means that no answer came. Whether the receiver has the
// event is unknown, so it is sent again.
func unanswered(err error) *refusal {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which is a secret
	}
	if _, ok := errors.AsType[*addressError](err); ok || errors.Is(err, errMetadataName) {
		return &refusal{kind: person, text: err.Error()}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &refusal{kind: unavailable, text: "no answer in time; whether the receiver has the event is unknown"}
	}
	return &refusal{kind: unavailable, text: withoutAnswer(err.Error())}
}

// withoutAnswer leaves out what net/http quotes of an answer that it cannot
// read: it may repeat what was sent, secrets included.
func withoutAnswer(text string) string {
	_, what, broken := strings.Cut(text, "transport connection broken: ")
	if !broken {
		return text
	}
	what, _, _ = strings.Cut(strings.TrimPrefix(what, "net/http: "), ": ")
	what, _, _ = strings.Cut(what, ` "`)
	return "the answer cannot be read: " + what
}
