package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Command says what to run.
type Command struct {
	Path string
	Args []string // without the program's name
	Env  []string // all of it, in the form of os.Environ
	Log  string   // file that stdout and stderr are appended to
}

// Process is a started program. Its methods may be called from several
// goroutines.
type Process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error // how it ended; read only after done
}

// Start runs the command in a process group of its own, so that a terminal's
// Ctrl-C reaches only us.
func Start(c Command) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", c.Path, err)
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = c.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.Path, err), log.Close())
	}
	return p, nil
}

// run starts the program and stays until it has ended. Linux ties the
// parent-death signal to the thread that forked; the thread is not unlocked,
// so it lives exactly as long as this goroutine.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = errors.Join(p.cmd.Wait(), p.log.Close())
	close(p.done)
}

// PID is the number of the program's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the program ended, nil for exit code 0; nil while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends sig; to a program that has ended it does nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID(), err)
	}
	return nil
}

// Stop asks the program to end with SIGTERM, waits for it, and returns Err.
// When ctx ends first the program is killed and ctx's error returned.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop process %d: %w", p.PID(), ctx.Err()), p.Kill())
	}
}

// Kill ends the program with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
