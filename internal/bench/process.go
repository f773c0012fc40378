package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what a process took from its start to its end.
type usage struct {
	Wall   time.Duration
	CPU    time.Duration // user and system
	Sink   time.Duration // what the sink's server took meanwhile, where it is measured
	RSS    int64         // peak, in bytes
	Output string        // stdout
}

// process is a program under measurement.
type process struct {
	cmd            *exec.Cmd
	began          time.Time
	stdout, stderr bytes.Buffer
	peak           chan int64
	ended          chan struct{}
}

// startProcess starts a program with nothing in its environment but env.
func startProcess(env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), peak: make(chan int64, 1), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.watchMemory()
	return p, nil
}

// watchMemory follows the process's peak. ru_maxrss would be simpler, but the
// kernel carries the peak of the process that forked into it.
func (p *process) watchMemory() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var peak int64
	for {
		peak = max(peak, peakMemory(p.cmd.Process.Pid))
		select {
		case <-p.ended:
			p.peak <- peak
			return
		case <-tick.C:
		}
	}
}

// wait returns what the process took. An exit code other than 0 is an error
// with what it said.
func (p *process) wait() (usage, error) {
	err := p.cmd.Wait()
	u := usage{Wall: time.Since(p.began), Output: p.stdout.String()}
	close(p.ended)
	u.RSS = <-p.peak
	if state := p.cmd.ProcessState; state != nil {
		u.CPU = state.UserTime() + state.SystemTime()
	}
	if err != nil {
		return u, fmt.Errorf("%s: %w; it says:\n%s", strings.Join(p.cmd.Args, " "), err, p.stderr.String())
	}
	return u, nil
}

// runProcess runs a program to its end, or kills it when ctx ends first.
func runProcess(ctx context.Context, env []string, name string, args ...string) (usage, error) {
	p, err := startProcess(env, name, args...)
	if err != nil {
		return usage{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	return p.wait()
}

// stop asks the process to end and waits until it has.
func (p *process) stop() (usage, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return usage{}, fmt.Errorf("stop %s: %w", p.cmd.Path, err)
	}
	return p.wait()
}

// cpu is the processor time a running process has taken, from its own clock
// (clock_getcpuclockid(3)), which is finer than the ticks in /proc.
func (p *process) cpu() (time.Duration, error) { return processCPU(p.cmd.Process.Pid) }

func processCPU(pid int) (time.Duration, error) {
	var spent unix.Timespec
	const sched = 2 // CPUCLOCK_SCHED
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &spent); err != nil {
		return 0, fmt.Errorf("read processor time of process %d: %w", pid, err)
	}
	return time.Duration(spent.Nano()), nil
}

// self is how the bench runs one of its own loops.
func self(ctx context.Context, args ...string) (usage, error) {
	path, err := os.Executable()
	if err != nil {
		return usage{}, fmt.Errorf("find own program: %w", err)
	}
	return runProcess(ctx, nil, path, args...)
}
