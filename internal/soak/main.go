// Command soak runs the exporter for minutes while everything around it fails,
// and then compares the event table with the files: two replicas of two
// consumers with random SIGKILLs, freezes and orderly stops, cut connections of
// exporters and writers, and server restarts with and without recovery. It is
// run by `make soak`, not by the tests.
//
// It promises to end with exit code 1 when an event is missing or out of order,
// when one was written more often than the faults explain, and when the
// exporter ended by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// settings are read from SOAK_… variables.
type settings struct {
	exporter string        // SOAK_EXPORTER, the program
	duration time.Duration // SOAK_MINUTES
	rate     float64       // SOAK_RATE, events per second
	seed     uint64        // SOAK_SEED, of the faults
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	s, err := readSettings()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "docket-exporter-soak-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	fmt.Printf("soak for %v at %.0f events/s, SOAK_SEED=%d, in %s\n", s.duration, s.rate, s.seed, dir)
	defer func() {
		if err != nil {
			fmt.Printf("kept: files, logs and the list of faults in %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	w, err := newWorld(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.endure(ctx); err != nil {
		return err
	}
	return w.judge(context.WithoutCancel(ctx))
}

func readSettings() (settings, error) {
	s := settings{exporter: "bin/exporter", duration: 10 * time.Minute, rate: 1500, seed: rand.Uint64()}
	if path := os.Getenv("SOAK_EXPORTER"); path != "" {
		s.exporter = path
	}
	var err error
	if s.exporter, err = filepath.Abs(s.exporter); err != nil {
		return s, fmt.Errorf("find SOAK_EXPORTER: %w", err)
	}
	if _, err := os.Stat(s.exporter); err != nil {
		return s, fmt.Errorf("find SOAK_EXPORTER: %w; build it with `make build`", err)
	}
	if text := os.Getenv("SOAK_MINUTES"); text != "" {
		minutes, err := strconv.ParseFloat(text, 64)
		if err != nil || minutes <= 0 {
			return s, fmt.Errorf("read SOAK_MINUTES: %q is not a number above 0", text)
		}
		s.duration = time.Duration(minutes * float64(time.Minute))
	}
	if text := os.Getenv("SOAK_RATE"); text != "" {
		if s.rate, err = strconv.ParseFloat(text, 64); err != nil || s.rate < 0 {
			return s, fmt.Errorf("read SOAK_RATE: %q is not a number of events a second", text)
		}
	}
	if text := os.Getenv("SOAK_SEED"); text != "" {
		if s.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return s, fmt.Errorf("read SOAK_SEED: %q is not a whole number", text)
		}
	}
	return s, nil
}
