package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// A pause is logged when it begins and then every ten minutes, not at every
// look; one of our own was logged when it was made.
func TestAPauseIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var c Config
	c.Exporter.Replica = "us"
	s := &supervisor{engine: &engine{config: c}, log: slog.New(slog.NewTextHandler(&log, nil))}
	var backoff exporter.Backoff
	var said remark
	pause := func(by string, at time.Time) error {
		return &cursor.PausedError{Name: "feed", Pause: cursor.Pause{Reason: "sink", Detail: "403", By: by, At: at}}
	}
	wantLines := func(want int, err error) {
		t.Helper()
		log.Reset()
		s.judge(err, &backoff, &said)
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d: %s", n, want, &log)
		}
	}
	first := time.Now()
	wantLines(1, errors.Join(exporter.ErrFenced, pause("ada", first)))
	wantLines(0, pause("ada", first))
	said.at = said.at.Add(-9 * time.Minute)
	wantLines(0, pause("ada", first))
	said.at = said.at.Add(-2 * time.Minute)
	wantLines(1, pause("ada", first))
	wantLines(1, pause("ada", first.Add(time.Minute))) // resumed, and paused again

	wantLines(0, &exporter.PauseError{Reason: "sink", Detail: "403"})
	wantLines(0, pause("us", first))
	wantLines(0, pause("us", first))
	said.at = said.at.Add(-11 * time.Minute)
	wantLines(1, pause("us", first))

	wantLines(0, &exporter.PauseError{Reason: "sink", Detail: "403"})
	wantLines(1, pause("ada", first)) // a person was first
}
