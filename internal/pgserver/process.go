package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is one running server program. It is told to end when this process
// does.
type process struct {
	pid  int
	done chan struct{} // closed once the program ended and was reaped
	err  error         // why it ended; read only after done
}

// startProcess runs path as the account, its words going to log.
//
// Linux ties the parent-death signal to the thread that forked, not to the
// process. So one goroutine owns a thread, starts the program on it, and keeps
// it until the program has ended.
func startProcess(as account, dir, path string, args []string, log io.Writer) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = serverAttributes(as)
	cmd.WaitDelay = 5 * time.Second

	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// run starts cmd and stays until it ended. The thread is not unlocked: it dies
// with this goroutine.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	p.err = cmd.Wait()
	close(p.done)
}

// signal sends sig unless the program has ended.
func (p *process) signal(sig syscall.Signal) error {
	if p.ended() {
		return os.ErrProcessDone
	}
	found, err := os.FindProcess(p.pid)
	if err != nil {
		return fmt.Errorf("find server process %d: %w", p.pid, err)
	}
	defer func() { _ = found.Release() }() // a handle only
	if err := found.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal server process %d: %w", p.pid, err)
	}
	return nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait returns when the program has ended, or with ctx's error.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runProgram runs a program of the account's to its end and returns what it
// printed.
func runProgram(ctx context.Context, as account, dir, path string, args ...string) (string, error) {
	var out strings.Builder
	p, err := startProcess(as, dir, path, args, &out)
	if err != nil {
		return "", err
	}
	if err := p.wait(ctx); err != nil {
		_ = p.signal(syscall.SIGKILL) // it may have ended meanwhile
		<-p.done
		return out.String(), fmt.Errorf("run %s: %w", path, err)
	}
	if p.err != nil {
		return out.String(), fmt.Errorf("run %s: %w: %s", path, p.err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// environment is ours without what steers PostgreSQL programs elsewhere.
func environment() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") && !strings.HasPrefix(entry, "LANG") {
			kept = append(kept, entry)
		}
	}
	return append(kept, "LC_ALL=C")
}
