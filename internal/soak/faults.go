package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter/internal/pgserver"
)

// faults breaks things at random and writes down what it broke.
type faults struct {
	world *world
	rng   *rand.Rand
	log   *slog.Logger
	file  *os.File
	count map[string]int
}

func newFaults(w *world, path string) (*faults, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open list of faults: %w", err)
	}
	return &faults{
		world: w, rng: rand.New(rand.NewPCG(w.settings.seed, 1)), file: file,
		log: slog.New(slog.NewJSONHandler(file, nil)), count: map[string]int{},
	}, nil
}

// fault is one way to break something; weight is how often it is chosen.
type fault struct {
	name   string
	weight int
	do     func(context.Context) error
}

// run breaks something about every second until ctx ends, and returns when all
// that was broken is mended. Several faults may be at work at once.
func (f *faults) run(ctx context.Context) error {
	defer f.file.Close()
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	printed := time.Now()
	began := printed
	busy := false // a server restart is one at a time
	restarted := make(chan struct{}, 1)
	for work.Err() == nil {
		wait(work, 200*time.Millisecond+time.Duration(f.rng.Int64N(int64(1500*time.Millisecond))))
		select {
		case <-restarted:
			busy = false
		default:
		}
		if time.Since(printed) >= 5*time.Second {
			printed = time.Now()
			f.world.report(work, time.Since(began))
		}
		chosen := f.choose()
		restart := strings.HasPrefix(chosen.name, "restart")
		if work.Err() != nil || restart && busy {
			continue
		}
		busy = busy || restart
		f.count[chosen.name]++
		f.log.Info(chosen.name)
		group.Go(func() error {
			if restart {
				defer func() { restarted <- struct{}{} }()
			}
			err := chosen.do(work)
			if err != nil {
				cancel() // a fault that cannot be made ends the soak
			}
			return err
		})
	}
	return group.Wait()
}

// choose draws a fault and its victim.
func (f *faults) choose() fault {
	w := f.world
	victim := w.replicas[f.rng.IntN(len(w.replicas))]
	while := time.Duration(f.rng.Int64N(int64(3 * leaseTTL)))
	all := []fault{
		{"kill " + victim.name, 3, func(context.Context) error { return victim.kill() }},
		{"stop " + victim.name, 1, victim.stop},
		{fmt.Sprintf("freeze %s", victim.name), 4, func(ctx context.Context) error { return victim.freeze(ctx, while) }},
		{"cut exporter", 4, func(ctx context.Context) error { return w.terminate(ctx, "docket-exporter") }},
		{"cut writer", 2, func(ctx context.Context) error { return w.terminate(ctx, "soak-writer") }},
		{"restart fast", 1, func(ctx context.Context) error { return w.restart(ctx, pgserver.Fast) }},
		{"restart immediate", 1, func(ctx context.Context) error { return w.restart(ctx, pgserver.Immediate) }},
	}
	total := 0
	for _, x := range all {
		total += x.weight
	}
	n := f.rng.IntN(total)
	for _, x := range all {
		if n -= x.weight; n < 0 {
			return x
		}
	}
	return all[0]
}

// total is how many faults there were.
func (f *faults) total() (n int) {
	for _, c := range f.count {
		n += c
	}
	return n
}

func (f *faults) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.count)) {
		parts = append(parts, fmt.Sprintf("%d × %s", f.count[name], name))
	}
	return strings.Join(parts, ", ")
}

// terminate ends one backend of an application. The server may be down at this
// moment; then there is nothing to cut.
func (w *world) terminate(ctx context.Context, application string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = w.admin.Exec(ctx, `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()
 ORDER BY random() LIMIT 1`, application)
	return nil
}

// restart ends the server and starts it again, whatever becomes of ctx.
func (w *world) restart(ctx context.Context, mode pgserver.Mode) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return w.cluster.Restart(ctx, mode)
}
