package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"

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
	s := &series{name: "exporter run --once to Pub/Sub's test server", events: b.PubSub, run: func(ctx context.Context) (usage, error) {
		return b.publishOnce(ctx, pubsubSchema, b.PubSub)
	}}
	for turn := range b.Repeat {
		if err := s.take(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.say("turn %d: %s %8.0f events/s  %5.2f s CPU per million  peak %s", turn+1, s.name, s.rate[turn], s.cpu[turn], mebibytes(s.rss[turn]))
	}
	r.note(s.name, "%.0f events/s best, %.0f median; %.2f s CPU per million median",
		slices.Max(s.rate), s.rate.median(), s.cpu.median())
	r.judge("peak RSS to Pub/Sub", mebibytes(slices.Max(s.rss)), "≤ "+mebibytes(mostRSS), slices.Max(s.rss) <= mostRSS)
	return measureLargeMessages(ctx, b, r)
}

// measureLargeMessages is measureLarge for Pub/Sub.
func measureLargeMessages(ctx context.Context, b *bed, r *report) error {
	if err := b.loadLarge(ctx); err != nil {
		return err
	}
	u, err := b.publishOnce(ctx, largeSchema, b.LargeEvents)
	if err != nil {
		return err
	}
	r.judge("peak RSS to Pub/Sub with 1 MB payloads", mebibytes(float64(u.RSS)), "≤ "+mebibytes(mostRSS), float64(u.RSS) <= mostRSS)
	return nil
}

// publishOnce exports every event to a new server and verifies that it got
// each.
func (b *bed) publishOnce(ctx context.Context, schema string, count int) (u usage, err error) {
	path, err := os.Executable()
	if err != nil {
		return u, fmt.Errorf("find own program: %w", err)
	}
	file := filepath.Join(b.dir, "pubsub-address")
	server, err := startProcess(nil, path, "pubsub-server", file)
	if err != nil {
		return u, err
	}
	u, err = b.publishTo(ctx, schema, file)
	got, stopErr := server.stop()
	if err := errors.Join(err, stopErr, os.Remove(file)); err != nil {
		return u, err
	}
	var events int
	if _, err := fmt.Sscan(got.Output, &events); err != nil || events != count {
		return u, fmt.Errorf("the server got %q events of %d", got.Output, count)
	}
	return u, nil
}

func (b *bed) publishTo(ctx context.Context, schema, file string) (u usage, err error) {
	address, err := awaitFile(ctx, file)
	if err != nil {
		return u, err
	}
	e, err := b.newExport(ctx, schema, "CONSUMER_BENCH_SINK=pubsub", "CONSUMER_BENCH_PUBSUB_PROJECT=bench",
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
	l, err := net.Listen("tcp", "127.0.0.1:0") // its own one takes requests of 4 MB at most
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), server.Close())
	}
	front := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	pubsubpb.RegisterPublisherServer(front, &server.GServer)
	go func() { _ = front.Serve(l) }() // ends with Stop
	defer front.Stop()
	part := args[0] + ".part"
	if err := os.WriteFile(part, []byte(l.Addr().String()), 0o600); err != nil {
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
	_, err = fmt.Fprintln(out, len(events))
	return errors.Join(err, server.Close())
}
