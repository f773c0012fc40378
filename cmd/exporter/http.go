package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
)

const (
	readyTimeout    = 3 * time.Second // for one answer of /readyz
	metricsTimeout  = 10 * time.Second
	httpStopTimeout = 3 * time.Second // for answers under way when the server stops
)

// HTTPServer serves /metrics, /livez and /readyz, and what a process can tell at
// / and /status.json.
type HTTPServer struct {
	Addr          string
	WebConfigFile string // TLS and basic authentication; empty for neither
	Registry      *prometheus.Registry
	Live          func() error                // nil while the loop turns
	Ready         func(context.Context) error // nil while the databases answer
	Remark        func() string               // added to a yes of /readyz; may be nil
	Status        *teller                     // nil for neither / nor /status.json
	Log           *slog.Logger

	listener net.Listener
}

// Listen binds the address, so that an address in use is reported before
// anything else starts. Address returns what was bound.
func (s *HTTPServer) Listen() error {
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return withHint(fmt.Errorf("listen on %s: %w", s.Addr, err),
			"choose another EXPORTER_HTTP_ADDR, or stop what uses this one")
	}
	s.listener = l
	return nil
}

// Address is the bound address, with the real port where 0 was asked for.
func (s *HTTPServer) Address() string { return s.listener.Addr().String() }

// Serve answers until ctx ends, then lets answers under way finish for a
// moment. Listen comes first.
func (s *HTTPServer) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      metricsTimeout + 5*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	s.Log.Info("http server listening", "addr", s.Address(), "web_config_file", s.WebConfigFile)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpStopTimeout)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := web.Serve(s.listener, server, &web.FlagConfig{WebConfigFile: &s.WebConfigFile}, slog.New(warnings{s.Log.Handler()}))
	if !stop() {
		<-stopped
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http on %s: %w", s.Address(), err)
	}
	return nil
}

func (s *HTTPServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{
		Registry:            s.Registry,
		Timeout:             metricsTimeout,
		MaxRequestsInFlight: 4,
		ErrorLog:            slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // one failing collector must not hide the others
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "live", s.Live())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		word := "ready"
		err := s.Ready(ctx)
		if err == nil && s.Remark != nil {
			word += s.Remark()
		}
		answer(w, word, err)
	})
	if s.Status != nil {
		p := newPage(func(r *http.Request) statusReport { return s.Status.tell(r.Context()) }, s.Log)
		mux.HandleFunc("GET /{$}", p.html)
		mux.HandleFunc("GET /status.json", p.json)
	}
	return mux
}

// answer says yes, or no and why. Errors that reach it hold no secrets.
func answer(w http.ResponseWriter, word string, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "not "+word+": "+err.Error()+"\n")
		return
	}
	io.WriteString(w, word+"\n")
}

// warnings leaves out what the web toolkit says about its ordinary work.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}
