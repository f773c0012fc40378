package clickhouse

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docket-exporter/exporter"
)

// overloadDelay is the least time between two inserts of a server that has too
// much to do.
const overloadDelay = time.Second

// answer turns an error into what the pipeline understands.
func (s *Sink) answer(err error) error {
	if pause, ok := errors.AsType[*exporter.PauseError](err); ok {
		return pause
	}
	if rejected, ok := errors.AsType[*exporter.RejectedError](err); ok {
		return rejected
	}
	exception, ok := errors.AsType[*driver.Exception](err)
	if !ok {
		return s.answerHTTP(err)
	}
	c := code(exception.Code)
	if name, ok := overloads()[c]; ok {
		return &exporter.RetryAfterError{
			Err: fmt.Errorf("code %d %s: %s", c, name, s.words(exception)), After: overloadDelay, Overloaded: true,
		}
	}
	if todo, ok := matters()[c]; ok {
		return pause("code %d: %s: %s", c, s.words(exception), todo)
	}
	if name, ok := refusals()[c]; ok {
		return &exporter.RefusedError{Err: fmt.Errorf("code %d %s%s", c, name, constraint(exception.Message)), Class: "refused"}
	}
	return fmt.Errorf("code %d: %s", c, s.words(exception))
}

// answerHTTP is for errors without a code of the server's: of a proxy in front
// of it, or of the network.
func (s *Sink) answerHTTP(err error) error {
	safe := redact(err, s.options)
	response, ok := errors.AsType[*driver.HTTPError](err)
	if !ok {
		return safe
	}
	switch status := response.StatusCode; status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return pause("HTTP status %d: correct the account in …_CLICKHOUSE_DSN, or what a proxy in front of the server allows", status)
	case http.StatusNotFound, http.StatusGone:
		return pause("HTTP status %d: correct the address in …_CLICKHOUSE_DSN", status)
	case http.StatusRequestEntityTooLarge:
		return &exporter.RefusedError{Err: fmt.Errorf("HTTP status %d: larger than a proxy lets through", status), Class: "too_large"}
	case http.StatusTooManyRequests:
		return &exporter.RetryAfterError{Err: safe, After: overloadDelay, Overloaded: true}
	}
	return safe
}

// codeOf returns the server's code of an error, 0 when it has none.
func codeOf(err error) code {
	if exception, ok := errors.AsType[*driver.Exception](err); ok {
		return code(exception.Code)
	}
	return 0
}

// maxWords bounds what is quoted of the server, in bytes.
const maxWords = 300

// words is the first line of an exception.
func (s *Sink) words(e *driver.Exception) string {
	text, _, _ := strings.Cut(e.Message, "\n")
	text = strings.TrimPrefix(text, "DB::Exception: ")
	text, _, _ = strings.Cut(text, " Stack trace:")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return strings.TrimRight(hide(text, s.options), " .")
}

var constraintName = regexp.MustCompile("^(?:DB::Exception: )?Constraint (`[^`]{1,100}`)")

// constraint names the constraint that a row violates. The rest of the server's
// text holds values.
func constraint(text string) string {
	if found := constraintName.FindStringSubmatch(text); found != nil {
		return ": constraint " + found[1]
	}
	return ""
}

// redact removes from an error what may hold secrets: the address of a request,
// with account and settings, and the password wherever it stands.
func redact(err error, o *driver.Options) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", strings.Join(o.Addr, ","), request.Err)
	}
	if text := err.Error(); hide(text, o) != text {
		return errors.New(hide(text, o))
	}
	return err
}

func hide(text string, o *driver.Options) string {
	if o.Auth.Password == "" {
		return text
	}
	return strings.NewReplacer(o.Auth.Password, "…", url.QueryEscape(o.Auth.Password), "…").Replace(text)
}
