package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const pubsubSchema = "bench_pubsub"

// measurePubSub exports to the client library's own test server, in a process
// of its own. It has no target: that server is not Pub/Sub.
func measurePubSub(ctx context.Context, b *bed, r *report) error {
	o := docketsim.LoadOptions{Age: 24 * time.Hour}
	if err := b.load(ctx, pubsubSchema, b.PubSub, b.PubSub, o); err != nil {
		return err
	}
	s := &series{name: "exporter run --once to Pub/Sub's test server", events: b.PubSub, run: b.publishOnce}
	for turn := range b.Repeat {
		if err := s.take(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.say("turn %d: %s %8.0f events/s  %5.2f s CPU per million", turn+1, s.name, s.rate[turn], s.cpu[turn])
	}
	r.note(s.name, "%.0f events/s best, %.0f median; %.2f s CPU per million median; peak %s",
		slices.Max(s.rate), s.rate.median(), s.cpu.median(), mebibytes(slices.Max(s.rss)))
	return nil
}

// publishOnce exports every event to a new server and verifies that it got
// each.
func (b *bed) publishOnce(ctx context.Context) (u usage, err error) {
	path, err := os.Executable()
	if err != nil {
		return u, fmt.Errorf("find own program: %w", err)
	}
	file := filepath.Join(b.dir, "pubsub-address")
	server, err := startProcess(nil, path, "pubsub-server", file)
	if err != nil {
		return u, err
	}
	u, err = b.publishTo(ctx, file)
	got, stopErr := server.stop()
	if err := errors.Join(err, stopErr, os.Remove(file)); err != nil {
		return u, err
	}
	var events int
	if _, err := fmt.Sscan(got.Output, &events); err != nil || events != b.PubSub {
		return u, fmt.Errorf("the server got %q events of %d", got.Output, b.PubSub)
	}
	return u, nil
}

func (b *bed) publishTo(ctx context.Context, file string) (u usage, err error) {
	address, err := awaitFile(ctx, file)
	if err != nil {
		return u, err
	}
	e, err := b.newExport(ctx, pubsubSchema, "CONSUMER_BENCH_SINK=pubsub", "CONSUMER_BENCH_PUBSUB_PROJECT=bench",
		"CONSUMER_BENCH_PUBSUB_TOPIC=events", "PUBSUB_EMULATOR_HOST="+address)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, e)) }()
	return runProcess(ctx, e.env, b.Exporter, "run", "--once")
}

// awaitFile returns what a process writes once it is ready.
func awaitFile(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if text, err := os.ReadFile(path); err == nil {
			return string(text), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("await %s: %w", filepath.Base(path), ctx.Err())
		case <-tick.C:
		}
	}
}

// pubsubChild is a server until it is asked to end. It writes its address to a
// file, and prints the number of different events it got:
//
//	pubsub-server FILE
func pubsubChild(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("the server wants 1 word, not %q", args)
	}
	server := pstest.NewServer()
	if _, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/bench/topics/events"}); err != nil {
		return errors.Join(fmt.Errorf("create topic: %w", err), server.Close())
	}
	part := args[0] + ".part"
	if err := os.WriteFile(part, []byte(server.Addr), 0o600); err != nil {
		return errors.Join(fmt.Errorf("write address: %w", err), server.Close())
	}
	if err := os.Rename(part, args[0]); err != nil {
		return errors.Join(fmt.Errorf("write address: %w", err), server.Close())
	}
	<-ctx.Done()
	events := map[string]bool{}
	for _, m := range server.Messages() {
		events[m.Attributes["idempotency_key"]] = true
	}
	_, err := fmt.Fprintln(out, len(events))
	return errors.Join(err, server.Close())
}
