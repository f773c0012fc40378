package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// canaries are texts that nobody but their addressee may ever see.
type canaries struct {
	t     *testing.T
	texts map[string]string // text by what it stands for
}

// secret makes a distinctive text for a variable.
func (c *canaries) secret(variable string) string {
	text := fmt.Sprintf("Canary%02dxQ7", len(c.texts))
	c.texts[variable] = text
	return text
}

// absent fails the test when any of them, as it is or as a URL, base64 or bytes
// in hexadecimal would show it, is in a text.
func (c *canaries) absent(where, text string) {
	c.t.Helper()
	for what, canary := range c.texts {
		for _, form := range []string{canary, url.QueryEscape(canary), base64.StdEncoding.EncodeToString([]byte(canary))[:12], fmt.Sprintf("%x", canary)} {
			if i := strings.Index(text, form); i >= 0 {
				c.t.Errorf("%s shows %s: …%s…", where, what, text[max(0, i-200):min(len(text), i+100)])
				return
			}
		}
	}
}

// shapes are values in which a secret has the form that its variable wants.
// A secret variable without one gets the bare secret.
var shapes = map[string]func(address, secret string) string{
	"DOCKET_DATABASE_URL": func(a, s string) string { return "postgres://exporter:" + s + "@" + a + "/app?sslmode=disable" },
	"EXPORT_DATABASE_URL": func(a, s string) string {
		return "host=" + strings.Replace(a, ":", " port=", 1) + " user=exporter password=" + s + " sslmode=disable"
	},
	"DOCKET_DIRECT_URL": func(a, s string) string {
		return "postgresql://" + a + "/app?user=exporter&sslmode=disable&password=" + s
	},
	"EXPORT_DIRECT_URL": func(a, s string) string { return "postgres://exporter:" + s + "@" + a + "/app?sslmode=disable" },
	"DEMO_DATABASE_URL": func(a, s string) string { return "postgres://exporter:" + s + "@" + a + "/app?sslmode=disable" },
	"CLICKHOUSE_DSN":    func(a, s string) string { return "clickhouse://exporter:" + s + "@" + a + "/analytics" },
	"WEBHOOK_URL":       func(a, s string) string { return "http://user:" + s + "@" + a + "/hook?token=" + s },
	"WEBHOOK_SECRETS": func(_, s string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(s+strings.Repeat("!", 24)))
	},
	"WEBHOOK_AUTHORIZATION": func(_, s string) string { return "Bearer " + s },
}

// secretEnvironment sets every secret variable there is, for one consumer of
// each sink. Nothing answers at the address.
func (c *canaries) secretEnvironment(address string, shape bool) map[string]string {
	env := map[string]string{
		"RETENTION_EVENTS": "none", "EXPORTER_HTTP_ADDR": "off", "LOG_LEVEL": "debug", "EXPORTER_CONSUMERS": "store,hook",
		"CONSUMER_STORE_SINK": "clickhouse", "CONSUMER_HOOK_SINK": "webhook", "CONSUMER_HOOK_WEBHOOK_ALLOW_PRIVATE": "true",
	}
	set := func(prefix string, v variable) {
		if !v.Secret {
			return
		}
		value := c.secret(prefix + v.Name)
		if f := shapes[v.Name]; f != nil && shape {
			value = f(address, value)
		}
		env[prefix+v.Name] = value
	}
	for _, v := range append(globalVariables(), variablesOf(DemoConfig{})...) {
		set("", v)
	}
	for _, v := range consumerVariables() {
		if prefix := "CONSUMER_HOOK_"; strings.HasPrefix(v.Name, "WEBHOOK_") {
			set(prefix, v)
		} else {
			set("CONSUMER_STORE_", v)
		}
	}
	return env
}

// leaves are the command lines of all commands, with a name where one is wanted.
func leaves() (lines [][]string) {
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		if !cmd.HasSubCommands() {
			lines = append(lines, path, append(slices.Clone(path), "store"), append(slices.Clone(path), "1"))
			return
		}
		for _, sub := range cmd.Commands() {
			walk(sub, append(slices.Clone(path), sub.Name()))
		}
	}
	walk(newRootCommand(newProcess(nil, nil, nil, nil)), nil)
	return lines
}

// Whatever is set, in good form or as nonsense, and whatever does not answer:
// no command repeats a secret.
func TestCommandsKeepSecrets(t *testing.T) {
	for name, shape := range map[string]bool{"nothing answers": true, "nonsense": false} {
		t.Run(name, func(t *testing.T) {
			c := &canaries{t: t, texts: map[string]string{}}
			env := c.secretEnvironment("127.0.0.1:1", shape)
			if len(c.texts) < 8 {
				t.Fatalf("only %d secret variables found", len(c.texts))
			}
			for _, args := range leaves() {
				if args[0] == "demo" && shape { // it waits for its server
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				var out lockedBuffer
				Main(ctx, args, environ(env), strings.NewReader(""), &out, &out)
				cancel()
				c.absent("exporter "+strings.Join(args, " "), out.String())
			}
		})
	}
}

// A whole life: a password in the URLs, sinks that refuse with what they were
// sent, a panic, rows that cannot be decoded, and all that people can look at.
func TestNothingShownHoldsSecretsOrPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := &canaries{t: t, texts: map[string]string{}}
	u, err := url.Parse(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), c.secret("DOCKET_DATABASE_URL"))
	s.env["DOCKET_DATABASE_URL"] = u.String()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer refusing.Close()
	hidden := &canaries{t: t, texts: map[string]string{}}
	for name, value := range hidden.secretEnvironment(strings.TrimPrefix(refusing.URL, "http://"), true) {
		if strings.HasPrefix(name, "CONSUMER_") {
			s.env[name] = value
			c.texts[name] = hidden.texts[name]
		}
	}
	for what, text := range c.texts {
		if text == "" {
			delete(c.texts, what)
		}
	}
	s.also("feed")
	s.env["EXPORTER_CONSUMERS"] += ",store,hook"
	s.env["EXPORTER_HTTP_ADDR"], s.env["LOG_LEVEL"], s.env["EXPORTER_SHUTDOWN_GRACE"] = "127.0.0.1:0", "debug", "2s"
	c.texts["a payload"] = "PayloadCanaryX9"
	s.insert("r", 5)
	for seq, payload := range map[int][]byte{
		1: docketsim.EncodeEvent(map[string]any{"text": c.texts["a payload"]}),
		2: []byte("\x83h" + c.texts["a payload"]),
		3: docketsim.EncodeEvent(map[string]any{c.texts["a payload"]: c.texts["a payload"]})[:60],
		4: docketsim.EncodeEvent(map[string]any{"rejected": c.texts["a payload"]}),
	} {
		pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = $2, metadata = CASE WHEN seq = 1 THEN $2 ELSE metadata END WHERE seq = $1`, seq, payload)
	}

	var log lockedBuffer
	p := newProcess(environ(s.env), strings.NewReader(""), &log, &log)
	p.pipes.sink = func(next exporter.Sink) exporter.Sink { return sinkFunc(troubled(next)) }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- p.execute(ctx, []string{"run"}) }()
	pgtest.Until(t, 30*time.Second, "all troubles", func() bool {
		return strings.Contains(log.String(), "panic in the consumer") && pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.dead_letters`) >= 3 &&
			strings.Contains(log.String(), `"consumer":"store"`) && strings.Contains(log.String(), "503")
	})
	url := servedAt(log.String())
	for _, page := range []string{"/metrics", "/livez", "/readyz", "/", "/status.json"} {
		r, err := http.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", page, len(text), err)
		}
		c.absent(page, string(text))
	}
	for _, args := range [][]string{
		{"status"},
		{"status", "--json"},
		{"check"},
		{"cursor", "list"},
		{"cursor", "show", "analytics"},
		{"deadletter", "list"},
		{"deadletter", "list", "--json"},
		{"source", "show"},
	} {
		r := command(t, s.env, args...)
		c.absent("exporter "+strings.Join(args, " "), r.stdout+r.stderr)
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	c.absent("the log", log.String())
	for _, table := range []string{"consumers", "losses", "audit", "source", "replicas", "export_dead_letters", "export_status"} {
		c.absent("the table "+table, pgtest.Value[string](t, s.pool, `SELECT coalesce(string_agg(x::text, chr(10)), '') FROM docket_export.`+table+` x`))
	}
	c.absent("a reason", pgtest.Value[string](t, s.pool, `SELECT string_agg(concat_ws(' ', class, reason, last_error), chr(10)) FROM docket_export.dead_letters`))
}

// troubled rejects an event of analytics, and panics for feed with a batch in
// its hands.
func troubled(next exporter.Sink) func(context.Context, exporter.Batch) error {
	return func(ctx context.Context, b exporter.Batch) error {
		switch b.Consumer {
		case "feed":
			return next.Deliver(ctx, exporter.Batch{Events: b.Events[:len(b.Events)+cap(b.Events)+1]})
		case "analytics":
			for _, e := range b.Events {
				if e.Seq == 4 {
					return &exporter.RejectedError{Rejections: []exporter.Rejection{{Event: e, Class: "refused", Reason: "400"}}}
				}
			}
		}
		return next.Deliver(ctx, b)
	}
}
