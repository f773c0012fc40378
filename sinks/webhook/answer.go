package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docket-exporter/exporter"
)

// mostDelay caps the delay that a receiver may ask for.
const mostDelay = 10 * time.Minute

// kind is what an answer means.
type kind int

const (
	unavailable kind = iota // the same event again later
	rejected                // this event never
	person                  // nothing until somebody has looked
)

// refusal is why an event is not accepted.
type refusal struct {
	kind    kind
	text    string // without payload and secrets
	class   string // of the dead letter
	after   time.Duration
	holdOff bool // the receiver wants no further requests now
}

// judge reads an answer. Nil means accepted.
func (s *Sink) judge(response *http.Response, excerpt []byte, e *exporter.Event) *refusal {
	code := response.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	r := &refusal{kind: meaning(code), text: s.words(code, excerpt, e)}
	switch r.kind {
	case rejected:
		r.class = exporter.ClassRefused
	case person:
		r.text += "; " + whatToDo(code)
	case unavailable:
		r.after = delay(response.Header.Get("Retry-After"), time.Now())
		r.holdOff = r.after > 0 || code == http.StatusTooManyRequests
	}
	return r
}

// meaning is the table of docs/sinks/webhook.md, for statuses that are not 2xx.
func meaning(code int) kind {
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return rejected
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return unavailable
	}
	if code >= 300 && code < 500 {
		return person
	}
	return unavailable
}

func whatToDo(code int) string {
	switch {
	case code < 400:
		return "redirects are not followed: set …_WEBHOOK_URL to where it leads"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "see that the receiver knows one of …_WEBHOOK_SECRETS, that …_WEBHOOK_AUTHORIZATION is right, and that the clocks of both sides are right"
	case code == http.StatusNotFound || code == http.StatusGone || code == http.StatusMethodNotAllowed:
		return "see that …_WEBHOOK_URL is the receiver's, and that it still wants events"
	}
	return "find out from the receiver what this answer means"
}

// delay reads Retry-After, seconds or a date; 0 for none. It is capped.
func delay(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(mostDelay/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), mostDelay)
	}
	return 0
}

// words is the status and what the receiver says beside it, at most 500
// characters, unless that repeats the event's content or a secret.
func (s *Sink) words(code int, excerpt []byte, e *exporter.Event) string {
	const most = 500
	text := fmt.Sprintf("%d %s", code, http.StatusText(code))
	said := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(excerpt), "\ufffd"), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if said == "" {
		return strings.TrimSpace(text)
	}
	if s.repeats(said, excerpt, e) {
		return text + ": (the answer repeats what was sent and is left out)"
	}
	text += ": " + said
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most-1]) + "…"
	}
	return text
}

// repeats reports whether an answer holds a piece of the payload, the metadata
// or a secret.
func (s *Sink) repeats(said string, excerpt []byte, e *exporter.Event) bool {
	const piece = 12
	secrets := append([]string{s.cfg.Authorization, s.cfg.URL, s.url.RawQuery}, s.cfg.Secrets...)
	for _, secret := range secrets {
		secret = strings.TrimPrefix(secret, secretPrefix)
		if secret != "" && strings.Contains(said, secret) {
			return true
		}
	}
	pieces := make(map[string]bool, len(excerpt))
	for i := 0; i+piece <= len(excerpt); i++ {
		pieces[string(excerpt[i:i+piece])] = true
	}
	for _, content := range [][]byte{e.Payload, e.Metadata} {
		if len(content) > 2 && len(content) < piece && bytes.Contains(excerpt, content) {
			return true
		}
		for i := 0; i+piece <= len(content); i++ {
			if pieces[string(content[i:i+piece])] {
				return true
			}
		}
	}
	return false
}

// answer is what the outcomes of the runs mean for the batch.
func (s *Sink) answer(ctx context.Context, batch *exporter.Batch, d *delivery) error {
	var pending []exporter.Event
	var names []exporter.Rejection
	var first *refusal // for a while, before one for good
	var after time.Duration
	for i := range d.runs {
		r := &d.runs[i]
		rest := r.events[r.accepted:]
		pending = append(pending, rest...)
		if r.stopped == nil {
			continue
		}
		switch r.stopped.kind {
		case person:
			// Whatever else was accepted comes again: a pause records nothing.
			return &exporter.PauseError{Reason: exporter.PausedSink, Detail: about(&rest[0], r.stopped).Error()}
		case rejected:
			names = append(names, exporter.Rejection{Event: rest[0], Class: r.stopped.class, Reason: r.stopped.text})
		case unavailable:
			after = max(after, r.stopped.after)
		}
		if first == nil || first.kind == rejected && r.stopped.kind == unavailable {
			first = r.stopped
		}
	}
	if len(pending) == 0 {
		return nil
	}
	if after > 0 {
		s.quiet = time.Now().Add(after)
	}
	err := s.reason(ctx, d, first)
	switch {
	case len(pending) < len(batch.Events):
		s.refused = refused{uid: batch.UID, number: batch.Number, attempt: batch.Attempt + 1, list: names}
		return &exporter.PartialError{Pending: pending, Err: err, After: after}
	case len(names) > 0:
		return &exporter.RejectedError{Rejections: names}
	case after > 0:
		return &exporter.RetryAfterError{Err: err, After: after}
	}
	return err
}

// reason is the error of what is pending.
func (s *Sink) reason(ctx context.Context, d *delivery, first *refusal) error {
	if first == nil { // stopped between two requests
		return ctx.Err()
	}
	for i := range d.runs {
		if r := &d.runs[i]; r.stopped == first {
			return about(&r.events[r.accepted], first)
		}
	}
	return errors.New(first.text)
}

func about(e *exporter.Event, r *refusal) error {
	return fmt.Errorf("post event %d, %.100q/%d: %s", e.ID, e.RunID, e.Seq, r.text)
}
