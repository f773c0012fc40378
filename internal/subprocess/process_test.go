package subprocess_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/subprocess"
)

// shell runs a script and returns it with its log once it has said "ready".
func shell(t *testing.T, script string) (p *subprocess.Process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	p, err := subprocess.Start(subprocess.Command{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"WORD=ready", "PATH=" + os.Getenv("PATH")}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() }) // mostly it has ended
	pgtest.Until(t, 10*time.Second, "the program's word", func() bool { return strings.Contains(subprocess.Tail(log, 100), "ready") })
	return p, log
}

func TestExitCode(t *testing.T) {
	p, _ := shell(t, `echo $WORD; exit 3`)
	<-p.Done()
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit code 3", p.Err())
	}
	if err := p.Stop(t.Context()); !errors.As(err, &exit) {
		t.Errorf("stopping it again: %v, want how it ended", err)
	}
}

func TestStopLetsAProgramFinish(t *testing.T) {
	p, log := shell(t, `trap 'echo done >&2; exit 0' TERM; echo $WORD; while :; do sleep 0.01; done`)
	if p.Err() != nil {
		t.Errorf("it runs, and has ended with %v", p.Err())
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if text := subprocess.Tail(log, 100); text != "ready\ndone\n" {
		t.Errorf("the log is %q", text)
	}
}

func TestStopKillsInTheEnd(t *testing.T) {
	p, _ := shell(t, `trap '' TERM; echo $WORD; while :; do sleep 0.01; done`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that time ran out", err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("it still runs")
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	_, err := subprocess.Start(subprocess.Command{Path: "/nowhere/program", Log: filepath.Join(t.TempDir(), "log")})
	if err == nil || !strings.Contains(err.Error(), "start /nowhere/program") {
		t.Errorf("got %v", err)
	}
}

func TestTailBeginsWithALine(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("first\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := subprocess.Tail(log, 15); got != "second\nthird\n" {
		t.Errorf("got %q", got)
	}
}
