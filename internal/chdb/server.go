package chdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// program is the server's package.
const program = "github.com/docket-exporter/exporter/internal/chdb/server"

// Server is a private ClickHouse. Its methods may be called from several
// goroutines.
type Server struct {
	subprocess.Server
	dir     string
	library string
	port    int
}

// Start builds the server and returns once it answers. Everything it writes is
// in a temporary directory, which Stop removes.
func Start(ctx context.Context) (*Server, error) {
	library, err := FindLibrary()
	if err != nil {
		return nil, err
	}
	port, err := subprocess.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "chdb-")
	if err != nil {
		return nil, fmt.Errorf("make ClickHouse's directory: %w", err)
	}
	s := &Server{dir: dir, library: library, port: port}
	if err := errors.Join(s.build(ctx), s.Start(ctx)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// build compiles the server without cgo, whatever this process was built with:
// the library brings its own C runtime, with which the race detector's quarrels.
func (s *Server) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.program(), program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", program, err, out)
	}
	return nil
}

func (s *Server) program() string { return filepath.Join(s.dir, "server") }

// LogPath is the file that the server's own words go to.
func (s *Server) LogPath() string { return filepath.Join(s.dir, "server.log") }

// Address is the server's host and port for HTTP; it stays across restarts.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// DSN is the connection string for clickhouse-go.
func (s *Server) DSN() string { return "http://" + s.Address() + "/default" }

// Start runs a server that is down, with the data it had, and returns once it
// answers.
func (s *Server) Start(ctx context.Context) error {
	return s.Up(func() (*subprocess.Process, error) {
		p, err := subprocess.Start(subprocess.Command{
			Path: s.program(), Args: []string{s.library, filepath.Join(s.dir, "data"), s.Address()},
			Env: os.Environ(), Log: s.LogPath(),
		})
		if err != nil {
			return nil, err
		}
		if err := s.awaitReady(ctx, p); err != nil {
			return nil, errors.Join(err, p.Kill())
		}
		return p, nil
	})
}

func (s *Server) awaitReady(ctx context.Context, p *subprocess.Process) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.answers(ctx) {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("start ClickHouse's library: %w; its log says:\n%s", p.Err(), subprocess.Tail(s.LogPath(), 2000))
		case <-ctx.Done():
			return fmt.Errorf("await ClickHouse's library: %w; its log says:\n%s", ctx.Err(), subprocess.Tail(s.LogPath(), 2000))
		case <-tick.C:
		}
	}
}

func (s *Server) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address()+"/ping", nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // its status is enough
	return response.StatusCode == http.StatusOK
}

// Query runs a statement and returns its result as tab-separated lines.
func (s *Server) Query(ctx context.Context, statement string) (string, error) {
	return s.QueryFormat(ctx, statement, "TabSeparated")
}

// QueryFormat runs a statement and returns its result in one of ClickHouse's
// formats.
func (s *Server) QueryFormat(ctx context.Context, statement, format string) (string, error) {
	address := "http://" + s.Address() + "/?default_format=" + url.QueryEscape(format)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("query ClickHouse's library: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read ClickHouse's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("query %.200s: %s", statement, text)
	}
	return string(text), nil
}

// Stop ends the server and removes its directory. It may be called again.
func (s *Server) Stop() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}
