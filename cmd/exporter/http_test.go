package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/crypto/bcrypt"

	"github.com/docket-exporter/exporter/internal/testca"
)

func TestHTTPServer(t *testing.T) {
	var dead, unready atomic.Bool
	url, _ := serve(t, "", http.DefaultClient, func(s *HTTPServer) {
		s.Live = func() error { return unless(&dead, "consumer feed has not turned for 5m") }
		s.Ready = func(context.Context) error { return unless(&unready, "the Docket database is away") }
	})
	wantResponse(t, http.DefaultClient, url+"/metrics", http.StatusOK, "test_total 1")
	wantResponse(t, http.DefaultClient, url+"/livez", http.StatusOK, "live\n")
	wantResponse(t, http.DefaultClient, url+"/readyz", http.StatusOK, "ready\n")
	dead.Store(true)
	unready.Store(true)
	wantResponse(t, http.DefaultClient, url+"/livez", http.StatusServiceUnavailable, "not live: consumer feed")
	wantResponse(t, http.DefaultClient, url+"/readyz", http.StatusServiceUnavailable, "not ready: the Docket database")
	wantResponse(t, http.DefaultClient, url+"/other", http.StatusNotFound, "")
}

func TestHTTPServerWithTLSAndPassword(t *testing.T) {
	dir, authority := t.TempDir(), testca.New(t)
	testca.Write(t, authority.Sign(t, testca.Here()), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	password, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "web.yml")
	config := "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\nbasic_auth_users:\n  prometheus: " + string(password) + "\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkWebConfig(file); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}}
	url, _ := serve(t, file, client, nil)
	url = strings.Replace(url, "http://", "https://", 1)
	wantResponse(t, client, url+"/metrics", http.StatusUnauthorized, "")
	wantResponse(t, client, strings.Replace(url, "https://", "https://prometheus:secret@", 1)+"/metrics", http.StatusOK, "test_total 1")
}

func TestHTTPAddressInUse(t *testing.T) {
	_, first := serve(t, "", http.DefaultClient, nil)
	second := &HTTPServer{Addr: first.Address(), Log: slog.New(slog.DiscardHandler)}
	err := second.Listen()
	if err == nil || !strings.Contains(err.Error(), "EXPORTER_HTTP_ADDR") {
		t.Errorf("got %v, want the variable named", err)
	}
}

// serve runs a server until the test ends, and fails the test unless it then
// ends in peace.
func serve(t *testing.T, webConfig string, client *http.Client, change func(*HTTPServer)) (url string, s *HTTPServer) {
	t.Helper()
	reg := prometheus.NewRegistry()
	promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "A test."}).Inc()
	s = &HTTPServer{
		Addr: "127.0.0.1:0", WebConfigFile: webConfig, Registry: reg, Log: slog.New(slog.DiscardHandler),
		Live:  func() error { return nil },
		Ready: func(context.Context) error { return nil },
	}
	if change != nil {
		change(s)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Address(), s
}

func wantResponse(t *testing.T, client *http.Client, url string, status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status || !strings.Contains(string(body), text) {
		t.Errorf("%s: got %d %q, want %d with %q", url, resp.StatusCode, body, status, text)
	}
}

func unless(bad *atomic.Bool, text string) error {
	if bad.Load() {
		return errors.New(text)
	}
	return nil
}
