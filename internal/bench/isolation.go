package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

const (
	mostDisturbed  = 1.2 // times as late, for consumers that are broken beside
	isolationTurns = 2   // of each, one after the other: other load weighs on both
)

// measureIsolation measures a consumer's latency alone, and again beside two
// consumers that are broken: one whose server takes connections and never
// answers, and one whose server refuses them.
func measureIsolation(ctx context.Context, b *bed, r *report) error {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen without answering: %w", err)
	}
	defer silent.Close() // nobody accepts: the kernel completes the handshake
	broken := map[string]string{
		"silent":  "clickhouse://" + silent.Addr().String() + "/bench",
		"refused": "clickhouse://127.0.0.1:1/bench",
	}
	var baseline, disturbed sample
	for range isolationTurns {
		took, err := b.latencyBeside(ctx, nil)
		if err != nil {
			return err
		}
		baseline = append(baseline, took...)
		if took, err = b.latencyBeside(ctx, broken); err != nil {
			return err
		}
		disturbed = append(disturbed, took...)
	}
	alone, beside := baseline.quantile(0.99), disturbed.quantile(0.99)
	r.judge("p99 beside two broken consumers / alone", fmt.Sprintf("%.2f (%.1f ms / %.1f ms)", beside/alone, beside, alone),
		fmt.Sprintf("≤ %.1f", mostDisturbed), beside <= mostDisturbed*alone)
	return nil
}

// latencyBeside measures as measureLatency does, with more consumers whose sink
// is a ClickHouse at the address by their name.
func (b *bed) latencyBeside(ctx context.Context, broken map[string]string) (latencies sample, err error) {
	if _, err := b.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+liveSchema+" CASCADE"); err != nil {
		return nil, fmt.Errorf("begin with no events: %w", err)
	}
	w, err := b.newWriter(ctx)
	if err != nil {
		return nil, err
	}
	e, err := b.newExport(ctx, liveSchema)
	if err != nil {
		return nil, err
	}
	env, names := e.env, consumer
	for name, dsn := range broken {
		prefix := "CONSUMER_" + strings.ToUpper(name) + "_"
		env = append(env, prefix+"SINK=clickhouse", prefix+"CLICKHOUSE_DSN="+dsn)
		names += "," + name
	}
	env = append(env, "EXPORTER_CONSUMERS="+names, "EXPORTER_SHUTDOWN_GRACE=2s", "LOG_LEVEL=error")
	p, err := startProcess(env, b.Exporter, "run")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end(ctx, p, e)) }()
	if err := b.await(ctx, "SELECT count(owner) = $1 FROM "+e.schema+".consumers", 1+len(broken)); err != nil {
		return nil, err
	}
	writing, cancel := context.WithTimeout(ctx, b.Duration)
	defer cancel()
	return b.writeAndWatch(ctx, writing, w, e.schema)
}
