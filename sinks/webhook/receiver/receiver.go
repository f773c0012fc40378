package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Effect is what an event is for. What it does through tx is durable exactly
// when the event's key is; it must neither commit nor roll back tx. What it
// does elsewhere may happen again. The result is stored and answered, also when
// the event comes again.
//
// An error rolls everything back. The event comes again, unless the error is or
// wraps a *PermanentError.
type Effect func(ctx context.Context, tx pgx.Tx, e Event) (result []byte, err error)

// PermanentError says that an event can never be taken. The exporter keeps it
// as a dead letter with the reason and goes on; nothing is written here.
type PermanentError struct {
	Reason string // for a person; no content of the event
}

func (e *PermanentError) Error() string { return "permanent: " + e.Reason }

// Config is what a Handler needs. Pool, Secrets and Effect must be set.
type Config struct {
	Pool      *pgxpool.Pool
	Secrets   []string      // whsec_ and base64, as the exporter has; two during a rotation
	Effect    Effect        // runs once for each event
	Table     string        // of the ledger; empty means DefaultTable
	Tolerance time.Duration // 0 means DefaultTolerance
	MaxBytes  int64         // of a body; 0 means 8 MiB
	Log       *slog.Logger  // says what failed, and what came again; nil discards
}

// Handler receives events.
type Handler struct {
	cfg    Config
	verify *Verifier
	ledger ledger
}

const defaultMaxBytes = 8 << 20

// New returns a handler. It does not connect.
func New(cfg Config) (*Handler, error) {
	if cfg.Pool == nil || cfg.Effect == nil {
		return nil, errors.New("open receiver: Pool and Effect must be set")
	}
	verify, err := NewVerifier(cfg.Secrets, cfg.Tolerance)
	if err != nil {
		return nil, fmt.Errorf("open receiver: %w", err)
	}
	if cfg.Table == "" {
		cfg.Table = DefaultTable
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{cfg: cfg, verify: verify, ledger: newLedger(cfg.Pool, cfg.Table)}, nil
}

// RepeatHeader is set to true in the answer to an event that had come before.
const RepeatHeader = "X-Docket-Repeat"

// ServeHTTP answers with the status that makes the exporter do what is right:
// 200 for an event that is done, 401 for a forged or stale request (the
// exporter pauses: with a wrong secret or clock every event would fail, and none
// is at fault), 400, 413 and 422 for an event that can never be taken (a dead
// letter), 500 and 503 for what may work later.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		http.Error(w, fmt.Sprintf("more than %d bytes", h.cfg.MaxBytes), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusRequestTimeout)
		return
	}
	if err := h.verify.Verify(r.Header, body, time.Now()); err != nil {
		h.cfg.Log.Warn("request refused", "err", err)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	event, err := parse(r.Header.Get("Content-Type"), body)
	key := r.Header.Get("webhook-id") // signed, unlike X-Idempotency-Key
	if err != nil || event.IdempotencyKey != key {
		h.cfg.Log.Error("signed request is no event", "key", key)
		http.Error(w, "the body is no event, or another than webhook-id says", http.StatusBadRequest)
		return
	}
	event.Attempt, _ = strconv.Atoi(r.Header.Get("X-Attempt")) // only informs
	h.take(w, r, event)
}

func (h *Handler) take(w http.ResponseWriter, r *http.Request, e Event) {
	result, repeat, err := h.ledger.once(r.Context(), e.IdempotencyKey, func(tx pgx.Tx) ([]byte, error) {
		return h.effect(r.Context(), tx, e)
	})
	if permanent, ok := errors.AsType[*PermanentError](err); ok {
		h.cfg.Log.Error("event refused for good", "run_id", e.RunID, "seq", e.Seq, "reason", permanent.Reason)
		http.Error(w, permanent.Reason, http.StatusUnprocessableEntity)
		return
	}
	if err != nil {
		h.cfg.Log.Warn("event not taken; it will come again", "run_id", e.RunID, "seq", e.Seq, "err", err)
		http.Error(w, "not taken; send it again", http.StatusInternalServerError)
		return
	}
	if repeat {
		h.cfg.Log.Info("event came again", "run_id", e.RunID, "seq", e.Seq, "attempt", e.Attempt)
		w.Header().Set(RepeatHeader, "true")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if json.Valid(result) {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(result) // an answer that is lost is asked for again
}

// effect turns a panic into an error, so that the transaction is rolled back
// and the exporter gets an answer.
func (h *Handler) effect(ctx context.Context, tx pgx.Tx, e Event) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			h.cfg.Log.Error("panic in an effect", "panic", v, "stack", string(debug.Stack()))
			err = errors.New("panic in an effect")
		}
	}()
	return h.cfg.Effect(ctx, tx, e)
}
