package promserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// Options say what a server does.
type Options struct {
	Targets   []string      // host:port of what is scraped
	RuleFiles []string      // absolute paths; none is fine
	Interval  time.Duration // of scrapes and of evaluations; whole milliseconds
}

// Server is a private Prometheus.
type Server struct {
	dir     string
	url     string
	process *subprocess.Process
}

// Find returns the path of prometheus or promtool. The error says what to run.
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("find %s: install it with `apt-get install prometheus` or `tools/setup.sh prometheus`: %w", program, err)
	}
	return path, nil
}

// Start runs a server and returns once it answers queries. Everything it
// writes is in a temporary directory, which Stop removes.
func Start(ctx context.Context, o Options) (*Server, error) {
	path, err := Find("prometheus")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "promserver-")
	if err != nil {
		return nil, fmt.Errorf("make Prometheus' directory: %w", err)
	}
	s := &Server{dir: dir}
	if err := s.start(ctx, path, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, path string, o Options) error {
	config := filepath.Join(s.dir, "prometheus.yml")
	if err := writeConfig(config, o); err != nil {
		return err
	}
	var err error
	s.process, err = subprocess.Start(subprocess.Command{
		Path: path, Env: os.Environ(), Log: s.log(),
		Args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(s.dir, "data"),
			"--web.listen-address=127.0.0.1:0", "--log.level=info",
		},
	})
	if err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

func writeConfig(path string, o Options) error {
	every := fmt.Sprintf("%dms", o.Interval.Milliseconds())
	text, err := yaml.Marshal(yaml.MapSlice{
		{Key: "global", Value: map[string]string{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}},
		{Key: "rule_files", Value: o.RuleFiles},
		{Key: "scrape_configs", Value: []yaml.MapSlice{{
			{Key: "job_name", Value: "docket-exporter"},
			{Key: "static_configs", Value: []map[string][]string{{"targets": o.Targets}}},
		}}},
	})
	if err != nil {
		return fmt.Errorf("write Prometheus' configuration: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write Prometheus' configuration: %w", err)
	}
	return nil
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.url == "" {
			s.url = s.address()
		}
		if s.url != "" && s.ready(ctx) {
			return nil
		}
		select {
		case <-s.process.Done():
			return fmt.Errorf("start prometheus: %w; it says:\n%s", s.process.Err(), subprocess.Tail(s.log(), 2000))
		case <-ctx.Done():
			return fmt.Errorf("await prometheus: %w; it says:\n%s", ctx.Err(), subprocess.Tail(s.log(), 2000))
		case <-tick.C:
		}
	}
}

// address reads from the log which port the server was given.
func (s *Server) address() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return ""
	}
	_, rest, found := strings.Cut(string(text), `msg="Listening on" address=`)
	line, _, whole := strings.Cut(rest, "\n")
	if !found || !whole {
		return ""
	}
	return "http://" + strings.TrimSpace(line)
}

func (s *Server) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/-/ready", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// Stop ends the server and removes its directory. It may be called again.
func (s *Server) Stop() error {
	var err error
	if s.process != nil {
		err = s.process.Kill()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
