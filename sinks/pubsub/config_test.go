package pubsub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

func TestConfig(t *testing.T) {
	good := []Config{
		{Project: "docket-test", Topic: "events"},
		{Project: "1234567890", Topic: "docket.events_v1~+%"},
		{Project: "example.com:legacy", Topic: "events", Endpoint: "europe-west1-pubsub.googleapis.com:443"},
		{Topic: "projects/docket-test/topics/events"},
		{Project: "docket-test", Topic: "projects/docket-test/topics/events", MaxRequests: 1, MaxOutstandingBytes: 10_000_000, RequestTimeout: time.Second},
	}
	for _, c := range good {
		if got, err := c.withDefaults(); err != nil || got.MaxRequests == 0 || got.MaxOutstandingBytes == 0 || got.RequestTimeout == 0 {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	for want, c := range map[string]Config{
		"_PUBSUB_PROJECT":  {Topic: "events"},
		"_PUBSUB_TOPIC":    {Project: "p"},
		"not goog":         {Project: "p", Topic: "google-events"},
		"not in project":   {Project: "p", Topic: "projects/q/topics/events"},
		"_PUBSUB_ENDPOINT": {Project: "p", Topic: "events", Endpoint: "https://pubsub.googleapis.com"},
		"bytes under way":  {Project: "p", Topic: "events", MaxOutstandingBytes: 9_999_999},
		"requests":         {Project: "p", Topic: "events", MaxRequests: 1001},
		"request timeout":  {Project: "p", Topic: "events", RequestTimeout: time.Millisecond},
	} {
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want an error with %q", c, err, want)
		}
	}
	_, err := Open(t.Context(), Config{Topic: "x", RequestTimeout: -1})
	for _, want := range []string{"_PUBSUB_PROJECT", "_PUBSUB_TOPIC", "request timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestCredentialsFile(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	cfg := Config{Project: project, Topic: "events", CredentialsFile: filepath.Join(t.TempDir(), "key.json")}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want the file to be missing", err)
	}
	for _, content := range []string{
		`s3cret`, `{"type":"s3cret"}`, `{"type":"s3cret`, `[]`,
		`{"type":"service_account","private_key":"s3cret","client_email":"x@example.com"}`,
	} {
		if err := os.WriteFile(cfg.CredentialsFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), cfg)
		if err == nil { // the key is read when a token is made
			err = s.Deliver(t.Context(), sinktest.Batch(1, 1, 1))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("credentials %s: got %v", content, err)
		}
	}
}

func TestClosed(t *testing.T) {
	newServer(t, "events")
	s := open(t, Config{Topic: "events"})
	deliver(t, s, sinktest.Batch(1, 1, 1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	expectPlain(t, s.Deliver(t.Context(), sinktest.Batch(1, 1, 1)))
}
