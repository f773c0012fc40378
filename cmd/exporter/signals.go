package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how soon after the first a second signal is the same one: it was
// sent to the process group, and a parent such as make passed it on as well.
const sameSignal = 100 * time.Millisecond

// untilSignal returns a context that ends with the first SIGINT or SIGTERM, and
// with SIGHUP, which a lost terminal sends, unless it is ignored as under nohup. A
// second SIGINT or SIGTERM exits at once with 128 + its number. It does not fall
// back to the default action for that, because the kernel ignores SIGTERM's
// default action in PID 1.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signal.Ignore(syscall.SIGXFSZ) // a file size limit is then an error of the write, like a full disk
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		first := time.Now()
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGHUP && time.Since(first) > sameSignal { // a terminal and its shell both send it
					os.Exit(128 + int(s.(syscall.Signal)))
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
