package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// replica is one exporter that is started again whenever it has ended.
type replica struct {
	name    string
	command subprocess.Command

	mu      sync.Mutex
	process *subprocess.Process
	doomed  bool // its process was told to end
}

// stopTime is how long a replica may take to end; longer than its grace.
const stopTime = 30 * time.Second

// keepRunning returns once ctx has ended and the replica, asked to stop, has
// too. A replica that ends without having been told to is an error.
func (r *replica) keepRunning(ctx context.Context) error {
	var failed error
	for ctx.Err() == nil {
		p, err := r.start()
		if err != nil {
			return err
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
			defer cancel()
			if err := p.Stop(grace); err != nil {
				return errors.Join(failed, fmt.Errorf("stop replica %s: %w; see %s", r.name, err, r.command.Log))
			}
			return failed
		}
		if !r.wasDoomed() {
			failed = errors.Join(failed, fmt.Errorf("replica %s ended by itself at %s: %w; see %s",
				r.name, time.Now().Format(time.TimeOnly), p.Err(), r.command.Log))
		}
		wait(ctx, time.Duration(rand.Int64N(int64(2*time.Second))))
	}
	return failed
}

func (r *replica) start() (*subprocess.Process, error) {
	p, err := subprocess.Start(r.command)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.doomed = p, false
	return p, nil
}

func (r *replica) wasDoomed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doomed
}

// running returns the present process, and dooms it where the caller is going
// to end it.
func (r *replica) running(doom bool) *subprocess.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed = r.doomed || doom
	return r.process
}

// kill ends the replica at once.
func (r *replica) kill() error {
	if p := r.running(true); p != nil {
		return p.Kill()
	}
	return nil
}

// stop ends the replica as a supervisor does. It must exit 0, unless another
// fault has killed it meanwhile.
func (r *replica) stop(ctx context.Context) error {
	p := r.running(true)
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := p.Stop(ctx)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 || err == nil { // negative: ended by a signal
		return nil
	}
	return fmt.Errorf("stop replica %s at %s: %w; see %s", r.name, time.Now().Format(time.TimeOnly), err, r.command.Log)
}

// freeze stops the replica's process for a while, as a machine that swaps or a
// hypervisor does. What it does when it wakes up is what is tested.
func (r *replica) freeze(ctx context.Context, while time.Duration) error {
	p := r.running(false)
	if p == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx, while)
	return p.Signal(syscall.SIGCONT)
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
