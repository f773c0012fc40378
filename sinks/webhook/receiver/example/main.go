// Command example receives events of the webhook sink and keeps two tables with
// them on PostgreSQL: every event received, and how far each run is.
//
//	createdb receiver
//	DATABASE_URL=postgres:///receiver WEBHOOK_SECRETS=whsec_… LISTEN=127.0.0.1:8080 go run ./sinks/webhook/receiver/example
//
// It may be killed at any moment: every event has its effect once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/sinks/webhook/receiver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tables have no unique keys of their own: what keeps a row from being there
// twice is the ledger alone.
const tables = `
CREATE TABLE IF NOT EXISTS received (
  n bigint GENERATED ALWAYS AS IDENTITY, run_id text NOT NULL, seq bigint NOT NULL, event_id bigint NOT NULL, type text NOT NULL);
CREATE TABLE IF NOT EXISTS progress (
  run_id text PRIMARY KEY, events bigint NOT NULL, last_type text NOT NULL)`

// effect is the application: two writes that belong together.
func effect(ctx context.Context, tx pgx.Tx, e receiver.Event) ([]byte, error) {
	if e.Seq < 1 {
		return nil, &receiver.PermanentError{Reason: "seq is below 1"}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO received (run_id, seq, event_id, type) VALUES ($1, $2, $3, $4)`,
		e.RunID, e.Seq, e.EventID, e.Type); err != nil {
		return nil, fmt.Errorf("insert event: %w", err)
	}
	var events int64
	if err := tx.QueryRow(ctx, `INSERT INTO progress AS p (run_id, events, last_type) VALUES ($1, 1, $2)
		ON CONFLICT (run_id) DO UPDATE SET events = p.events + 1, last_type = excluded.last_type RETURNING p.events`,
		e.RunID, e.Type).Scan(&events); err != nil {
		return nil, fmt.Errorf("count event: %w", err)
	}
	return fmt.Appendf(nil, `{"events":%d}`, events), nil
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("read DATABASE_URL: %w", err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, receiver.Schema(receiver.DefaultTable)+";"+tables); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	handler, err := receiver.New(receiver.Config{
		Pool: pool, Secrets: strings.Split(os.Getenv("WEBHOOK_SECRETS"), ","), Effect: effect,
		Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	})
	if err != nil {
		return fmt.Errorf("read WEBHOOK_SECRETS: %w", err)
	}
	listener, err := net.Listen("tcp", os.Getenv("LISTEN"))
	if err != nil {
		return fmt.Errorf("listen on LISTEN: %w", err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	return serve(ctx, listener, handler)
}

// serve answers until ctx ends, and then the requests under way.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(late); err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
