package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// faultVariable tells a re-executed test binary where its pipeline goes wrong:
// "<fault> <n>" acts at the n-th time the point is reached, 0 at every time.
const faultVariable = "FAULT_FOR_TEST"

// The points at which a pipeline stands still until it is killed.
const (
	beforeBegin = "before-begin"
	afterBegin  = "after-begin"
	midDeliver  = "mid-deliver" // half of the batch has reached the sink
	accepted    = "accepted"    // by the sink, and not recorded
	recorded    = "recorded"
)

// frozen stops the whole process between the sink's acceptance and the record
// of it, as a hypervisor may, until somebody lets it go on.
const frozen = "frozen"

// Other faults of the sink.
const (
	slowSink    = "slow"    // takes two seconds
	hungSink    = "hung"    // answers only when its context ends
	deafSink    = "deaf"    // does not even look at its context
	panicSink   = "panic"   // panics, for the consumer named feed
	refusedSink = "refused" // is unavailable, for the consumer named feed
)

// mainWithFaults is main for the re-executed test binary.
func mainWithFaults() {
	ctx, stop := untilSignal(context.Background())
	muteLibraries()
	p := newProcess(os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	if f := os.Getenv(faultVariable); f != "" {
		p.pipes = newFault(f).pipes()
	}
	code := p.execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

type fault struct {
	point string
	n     int
	mu    sync.Mutex
	count int
}

func newFault(text string) *fault {
	f := &fault{}
	if _, err := fmt.Sscan(text, &f.point, &f.n); err != nil {
		panic(fmt.Sprintf("%s=%q: %v", faultVariable, text, err))
	}
	return f
}

// reached says on stdout that the point was reached, and stands still there.
func (f *fault) reached(point string) {
	if !f.due(point) {
		return
	}
	fmt.Printf("at %s\n", point)
	select {}
}

func (f *fault) due(point string) bool {
	if point != f.point {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return f.n == 0 || f.count == f.n
}

func (f *fault) pipes() pipes {
	return pipes{
		cursor: func(c exporter.Cursor) exporter.Cursor { return &faultyCursor{c, f} },
		sink:   func(s exporter.Sink) exporter.Sink { return &faultySink{s, f} },
	}
}

type faultyCursor struct {
	exporter.Cursor
	*fault
}

func (c *faultyCursor) Begin(ctx context.Context, in exporter.Intent) error {
	c.reached(beforeBegin)
	err := c.Cursor.Begin(ctx, in)
	c.reached(afterBegin)
	return err
}

func (c *faultyCursor) Accept(ctx context.Context, a exporter.Acceptance) error {
	c.reached(accepted)
	if c.due(frozen) {
		return c.freeze(ctx, a)
	}
	err := c.Cursor.Accept(ctx, a)
	c.reached(recorded)
	return err
}

// freeze stops the process and then writes what it was about to write, also
// when its own clock has told it not to: the database must refuse it.
func (c *faultyCursor) freeze(ctx context.Context, a exporter.Acceptance) error {
	fmt.Println("at " + frozen)
	stopped := time.Now()
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	for time.Since(stopped) < time.Second { // the signal may take effect a moment later
		time.Sleep(time.Millisecond)
	}
	err := c.Cursor.Accept(context.WithoutCancel(ctx), a)
	if errors.Is(err, exporter.ErrFenced) {
		fmt.Println("at refused")
	}
	return err
}

type faultySink struct {
	exporter.Sink
	*fault
}

func (s *faultySink) Deliver(ctx context.Context, b exporter.Batch) error {
	switch {
	case s.due(midDeliver):
		half := b
		half.Events = b.Events[:(len(b.Events)+1)/2]
		if err := s.Sink.Deliver(ctx, half); err != nil {
			return err
		}
		fmt.Printf("at %s\n", midDeliver)
		select {}
	case s.due(slowSink):
		fmt.Println("at slow")
		time.Sleep(2 * time.Second)
	case s.due(hungSink):
		fmt.Println("at hung")
		<-ctx.Done()
		return ctx.Err()
	case s.due(deafSink):
		fmt.Println("at deaf")
		select {}
	case b.Consumer == "feed" && s.due(panicSink):
		panic("a bug in the sink")
	case b.Consumer == "feed" && s.due(refusedSink):
		return errors.New("connection refused")
	}
	return s.Sink.Deliver(ctx, b)
}

// child is the re-executed binary.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *lockedBuffer
	lines  chan string // of stdout
	done   chan struct{}
}

// start runs the binary with the variables and a fault.
func start(t *testing.T, env map[string]string, fault string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startCommand(t, env, fault, append([]string{self}, args...)...)
}

func startCommand(t *testing.T, env map[string]string, fault string, argv ...string) *child {
	t.Helper()
	c := &child{t: t, stderr: &lockedBuffer{}, lines: make(chan string, 100), done: make(chan struct{})}
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env = append(environ(env), asBinary+"=1", "PATH="+os.Getenv("PATH"), "EXPORTER_HTTP_ADDR=127.0.0.1:0")
	if fault != "" {
		c.cmd.Env = append(c.cmd.Env, faultVariable+"="+fault)
	}
	c.cmd.Stderr = c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
	})
	return c
}

// awaitLine waits for a line of stdout.
func (c *child) awaitLine(want string) {
	c.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line := <-c.lines:
			if line == want {
				return
			}
		case <-c.done:
			c.t.Fatalf("the exporter ended before it said %q\n%s", want, c.stderr)
		case <-deadline:
			c.t.Fatalf("the exporter did not say %q\n%s", want, c.stderr)
		}
	}
}

// signal sends a signal.
func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the child with SIGKILL.
func (c *child) kill() {
	c.t.Helper()
	_ = c.cmd.Process.Kill()
	c.wait(10 * time.Second)
}

// wait returns the exit code.
func (c *child) wait(within time.Duration) int {
	c.t.Helper()
	select {
	case <-c.done:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		c.t.Fatalf("the exporter has not ended within %v\n%s", within, c.stderr)
		return -1
	}
}

// lockedBuffer collects a child's words.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
