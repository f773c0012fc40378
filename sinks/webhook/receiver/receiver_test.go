package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sinks/sinktest"
	"github.com/docket-exporter/exporter/sinks/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	other  = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// world is a handler on a database whose effect inserts a row into effects.
type world struct {
	t    *testing.T
	pool *pgxpool.Pool
	url  string

	mu     sync.Mutex
	before func(ctx context.Context, e Event) error // called in every effect
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, pool: pgtest.Pool(t, pgtest.Database(t)+"&pool_max_conns=20")}
	pgtest.Exec(t, w.pool, Schema(DefaultTable))
	pgtest.Exec(t, w.pool, "CREATE TABLE effects (n serial, run_id text, seq bigint)")
	h, err := New(Config{Pool: w.pool, Secrets: []string{other, secret}, Effect: w.effect, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) on(before func(context.Context, Event) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

func (w *world) effect(ctx context.Context, tx pgx.Tx, e Event) ([]byte, error) {
	var n int
	if err := tx.QueryRow(ctx, "INSERT INTO effects (run_id, seq) VALUES ($1, $2) RETURNING n", e.RunID, e.Seq).Scan(&n); err != nil {
		return nil, err
	}
	w.mu.Lock()
	before := w.before
	w.mu.Unlock()
	if before != nil {
		if err := before(ctx, e); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, `{"n":%d}`, n), nil
}

// counts returns how many effects and ledger rows there are.
func (w *world) counts() (effects, keys int) {
	w.t.Helper()
	return pgtest.Value[int](w.t, w.pool, "SELECT count(*) FROM effects"), pgtest.Value[int](w.t, w.pool, "SELECT count(*) FROM docket_receipts")
}

func (w *world) want(effects int) {
	w.t.Helper()
	if e, k := w.counts(); e != effects || k != effects {
		w.t.Errorf("%d effects and %d keys, want %d", e, k, effects)
	}
}

// message is a signed event.
func message(t *testing.T, seq int64) (http.Header, []byte) {
	t.Helper()
	e := sinktest.Batch(1, 1, 1).Events[0]
	e.Seq = seq
	return sign(t, secret, e.Identity().Key(), time.Now(), e.AppendJSON(nil)), e.AppendJSON(nil)
}

func sign(t *testing.T, secret, id string, at time.Time, body []byte) http.Header {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := hook.Sign(id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", signature)
	h.Set("Content-Type", "application/json")
	return h
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (w *world) post(ctx context.Context, h http.Header, body []byte) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	r.Header = h.Clone()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, err
}

func (w *world) mustPost(h http.Header, body []byte) reply {
	w.t.Helper()
	r, err := w.post(w.t.Context(), h, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestRepeatGetsTheStoredResult(t *testing.T) {
	w := newWorld(t)
	h, body := message(t, 1)
	first := w.mustPost(h, body)
	if first.status != 200 || first.body != `{"n":1}` || first.header.Get(RepeatHeader) != "" || first.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %+v", first)
	}
	for range 3 {
		if again := w.mustPost(h, body); again.status != 200 || again.body != first.body || again.header.Get(RepeatHeader) != "true" {
			t.Fatalf("got %+v", again)
		}
	}
	w.want(1)
	h, body = message(t, 2)
	if r := w.mustPost(h, body); r.status != 200 || r.header.Get(RepeatHeader) != "" {
		t.Fatalf("got %+v", r)
	}
	w.want(2)
}

// Nobody without a secret, and nothing old, gets anything written.
func TestForgedAndStale(t *testing.T) {
	w := newWorld(t)
	good, body := message(t, 1)
	key := good.Get("webhook-id")
	for name, h := range map[string]http.Header{
		"unsigned":          {"Content-Type": good["Content-Type"]},
		"no id":             without(good, "webhook-id"),
		"no timestamp":      without(good, "webhook-timestamp"),
		"no signature":      without(good, "webhook-signature"),
		"empty signature":   with(good, "webhook-signature", "v1,"),
		"other version":     with(good, "webhook-signature", strings.Replace(good.Get("webhook-signature"), "v1,", "v2,", 1)),
		"other id":          with(good, "webhook-id", strings.Repeat("0", 64)),
		"other timestamp":   with(good, "webhook-timestamp", strconv.FormatInt(time.Now().Unix()+1, 10)),
		"no number":         with(good, "webhook-timestamp", "now"),
		"unknown secret":    sign(t, "whsec_"+strings.Repeat("A", 32), key, time.Now(), body),
		"too old":           sign(t, secret, key, time.Now().Add(-DefaultTolerance-2*time.Second), body),
		"from the future":   sign(t, secret, key, time.Now().Add(DefaultTolerance+2*time.Second), body),
		"signed other body": sign(t, secret, key, time.Now(), append(body[:len(body):len(body)], ' ')),
	} {
		if r := w.mustPost(h, body); r.status != http.StatusUnauthorized {
			t.Errorf("%s: status %d %s", name, r.status, r.body)
		}
	}
	w.want(0)
	for name, h := range map[string]http.Header{
		"second of several signatures": with(good, "webhook-signature", "v1,AAAA v2,BBBB "+good.Get("webhook-signature")),
		"the other secret":             sign(t, other, key, time.Now(), body),
		"nearly too old":               sign(t, secret, key, time.Now().Add(-DefaultTolerance+10*time.Second), body),
	} {
		if r := w.mustPost(h, body); r.status != http.StatusOK {
			t.Errorf("%s: status %d %s", name, r.status, r.body)
		}
	}
	w.want(1)
}

func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

func without(h http.Header, name string) http.Header {
	h = h.Clone()
	h.Del(name)
	return h
}

// A signed body that is no event, or another than its key says, is for a dead
// letter.
func TestSignedNonsense(t *testing.T) {
	w := newWorld(t)
	_, body := message(t, 1)
	key := strings.Repeat("a", 64)
	for name, body := range map[string][]byte{"no JSON": []byte("{"), "empty": {}, "another key": body, "null": []byte("null")} {
		if r := w.mustPost(sign(t, secret, key, time.Now(), body), body); r.status != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, r.status)
		}
	}
	large := make([]byte, 1<<20+1)
	if r := w.mustPost(sign(t, secret, key, time.Now(), large), large); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("large: status %d", r.status)
	}
	response, err := http.Get(w.url)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", response.StatusCode)
	}
	w.want(0)
}

// A failed effect leaves nothing, and does not stand in the way of the next.
func TestFailedEffects(t *testing.T) {
	w := newWorld(t)
	h, body := message(t, 1)
	for name, c := range map[string]struct {
		fail   func(context.Context, Event) error
		status int
		says   string
	}{
		"error":     {func(context.Context, Event) error { return errors.New("hush: deadlock") }, 500, "send it again"},
		"panic":     {func(context.Context, Event) error { panic("hush") }, 500, "send it again"},
		"permanent": {func(context.Context, Event) error { return fmt.Errorf("x: %w", &PermanentError{"no such tenant"}) }, 422, "no such tenant"},
	} {
		w.on(c.fail)
		if r := w.mustPost(h, body); r.status != c.status || !strings.Contains(r.body, c.says) || strings.Contains(r.body, "hush") {
			t.Errorf("%s: got %+v", name, r)
		}
		w.want(0)
	}
	w.on(nil)
	if r := w.mustPost(h, body); r.status != 200 {
		t.Fatalf("got %+v", r)
	}
	w.want(1)
}

// The real sink, both formats, an effect each.
func TestOverTheSink(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	seen := map[string]Event{}
	w.on(func(_ context.Context, e Event) error {
		mu.Lock()
		defer mu.Unlock()
		seen[e.IdempotencyKey] = e
		return nil
	})
	for i, format := range []webhook.Format{webhook.FormatJSON, webhook.FormatCloudEvents} {
		s, err := webhook.Open(webhook.Config{
			URL: w.url, Secrets: []string{secret}, Format: format, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})
		if err != nil {
			t.Fatal(err)
		}
		b := sinktest.Batch(uint64(i+1), 5, 6)
		for b.Attempt = 1; b.Attempt <= 2; b.Attempt++ { // the second as after a crash
			if err := s.Deliver(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range b.Events {
			got := seen[e.Identity().Key()]
			if got.RunID != e.RunID || got.Seq != e.Seq || got.EventID != e.ID || got.Type != e.Type || got.Attempt != 1 ||
				!got.OccurredAt.Equal(e.OccurredAt.Truncate(time.Microsecond)) || !bytes.Equal(got.Payload, e.Payload) || *got.TenantID != e.TenantID.Value {
				t.Errorf("got %+v of %+v", got, e)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	w.want(60)
}

func TestConfig(t *testing.T) {
	w := newWorld(t)
	for name, cfg := range map[string]Config{
		"no pool":      {Secrets: []string{secret}, Effect: w.effect},
		"no effect":    {Secrets: []string{secret}, Pool: w.pool},
		"no secret":    {Effect: w.effect, Pool: w.pool},
		"empty secret": {Effect: w.effect, Pool: w.pool, Secrets: []string{""}},
		"bad secret":   {Effect: w.effect, Pool: w.pool, Secrets: []string{secret, "whsec_hush-hush"}},
	} {
		if _, err := New(cfg); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
