package chserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// Server is a private ClickHouse server. Its methods may be called from
// several goroutines.
type Server struct {
	subprocess.Server
	dir  string
	path string
	port int
}

// Find returns the path of the server's program. The error says what to run.
func Find() (string, error) {
	for _, name := range []string{"clickhouse-server", "/usr/sbin/clickhouse-server", "/usr/bin/clickhouse-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no clickhouse-server found: install it with `apt-get install clickhouse-server` or `tools/setup.sh clickhouse`")
}

// Start runs a new server and returns once it accepts connections. Everything
// it writes is in a temporary directory, which Stop removes.
func Start(ctx context.Context) (*Server, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	port, err := subprocess.FreePort()
	if err != nil {
		return nil, err
	}
	httpPort, err := subprocess.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "chserver-")
	if err != nil {
		return nil, fmt.Errorf("make ClickHouse's directory: %w", err)
	}
	s := &Server{dir: dir, path: path, port: port}
	if err := s.configure(httpPort); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// LogPath is the file that the server logs warnings and errors to.
func (s *Server) LogPath() string { return filepath.Join(s.dir, "server.log") }

// Address is the host and port of the native protocol; it stays across restarts.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// DSN is the connection string of the account "default".
func (s *Server) DSN() string { return "clickhouse://" + s.Address() + "/default" }

// Start runs a server that is down, with the data it had, and returns once it
// accepts connections.
func (s *Server) Start(ctx context.Context) error {
	return s.Up(func() (*subprocess.Process, error) {
		p, err := subprocess.Start(subprocess.Command{
			Path: s.path, Args: []string{"--config-file=" + filepath.Join(s.dir, "config.xml")},
			Env: append(os.Environ(), "TZ=UTC"), Log: filepath.Join(s.dir, "output.log"),
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
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("start clickhouse-server: %w; its logs say:\n%s", p.Err(), s.words())
		case <-ctx.Done():
			return fmt.Errorf("await clickhouse-server: %w (last answer: %w); its logs say:\n%s", ctx.Err(), err, s.words())
		case <-tick.C:
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := s.Connect()
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close())
}

func (s *Server) words() string {
	return subprocess.Tail(filepath.Join(s.dir, "output.log"), 1000) + subprocess.Tail(s.LogPath(), 2000)
}

// Connect opens a pool of the account "default", which the caller closes.
func (s *Server) Connect() (clickhouse.Conn, error) {
	return clickhouse.Open(&clickhouse.Options{Addr: []string{s.Address()}})
}

// Stop ends the server and removes its directory. It may be called again.
func (s *Server) Stop() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}
