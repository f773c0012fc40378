package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// The example of the specification's reference libraries.
func TestSignatureVector(t *testing.T) {
	s, err := newSigner([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := s.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	if h.Get("webhook-timestamp") != "1614265330" || h.Get("webhook-id") != "msg_p5jXN8AQM9LWM0D4loKWxJek" {
		t.Errorf("headers %v", h)
	}
}

// While a secret is replaced, whoever knows either one can verify.
func TestRotation(t *testing.T) {
	const next = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	server := newServer(t)
	cfg := server.config()
	cfg.Secrets = []string{next, secret}
	b, _ := one(t)
	deliver(t, open(t, cfg), b)
	r := server.accepted()[0]
	for _, known := range cfg.Secrets {
		hook, err := standardwebhooks.NewWebhook(known)
		if err == nil {
			err = hook.Verify(r.body, r.header)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if n := len(strings.Fields(r.header.Get("webhook-signature"))); n != 2 {
		t.Errorf("%d signatures", n)
	}
}

// An event that is sent again keeps its id, and is signed anew with the time of
// the attempt.
func TestAttemptsShareTheID(t *testing.T) {
	server := newServer(t)
	s := open(t, server.config())
	b, e := one(t)
	ids, stamps, attempts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	server.on(answerWith(http.StatusServiceUnavailable))
	for b.Attempt = 1; b.Attempt <= 3; b.Attempt++ {
		if err := s.Deliver(t.Context(), b); err == nil {
			t.Fatal("accepted")
		}
		sent := time.Now().Unix() // timestamps have whole seconds
		pgtest.Until(t, 5*time.Second, "the next second", func() bool { return time.Now().Unix() != sent })
	}
	for _, r := range server.asked() {
		ids[r.header.Get("webhook-id")], stamps[r.header.Get("webhook-timestamp")], attempts[r.header.Get("X-Attempt")] = true, true, true
	}
	if !ids[e.Identity().Key()] || len(ids) != 1 || len(stamps) != 3 || len(attempts) != 3 {
		t.Errorf("ids %v, timestamps %v, attempts %v", ids, stamps, attempts)
	}
}

func TestConfigIsRefusedWithoutRepeatingSecrets(t *testing.T) {
	good := Config{URL: "https://receiver.example/x", Secrets: []string{secret}}
	for name, change := range map[string]func(*Config){
		"_URL":           func(c *Config) { c.URL = "" },
		"_URL cannot":    func(c *Config) { c.URL = "ftp://hush-hush@h/x" },
		"_URL must":      func(c *Config) { c.URL = "https://h\x7f/hush-hush" },
		"fragment":       func(c *Config) { c.URL = "https://h/#hush-hush" },
		"metadata":       func(c *Config) { c.URL = "http://metadata.google.internal/hush-hush" },
		"_SECRETS":       func(c *Config) { c.Secrets = nil },
		"whsec_":         func(c *Config) { c.Secrets = []string{"hush-hush"} },
		"base64":         func(c *Config) { c.Secrets = []string{"whsec_hush-hush"} },
		"24 bytes":       func(c *Config) { c.Secrets = []string{"whsec_aHVzaA=="} },
		"_AUTHORIZATION": func(c *Config) { c.Authorization = "hush-hush\nX: y" },
		"_FORMAT":        func(c *Config) { c.Format = "xml" },
		"TLS_CERT_FILE":  func(c *Config) { c.TLS.CertFile = "cert.pem" },
		"TLS_CA_FILE":    func(c *Config) { c.TLS.CAFile = "/does/not/exist.pem" },
	} {
		cfg := good
		change(&cfg)
		_, err := Open(cfg)
		switch {
		case err == nil:
			t.Errorf("%s: accepted", name)
		case strings.Contains(err.Error(), "hush"):
			t.Errorf("%s: the error repeats a secret: %v", name, err)
		case !strings.Contains(err.Error(), strings.TrimSuffix(strings.TrimSuffix(name, " cannot"), " must")):
			t.Errorf("%s: %v", name, err)
		}
	}
}
