package main

import (
	"context"
	"log/slog"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
	"github.com/docket-exporter/exporter/sinks/file"
	"github.com/docket-exporter/exporter/sinks/pubsub"
	"github.com/docket-exporter/exporter/sinks/webhook"
)

// sink is an open sink. Close gives its resources back.
type sink interface {
	exporter.Sink
	Close() error
}

// openSink opens the sink of a consumer for its owner. used is where files may
// have been left open; empty looks for none.
func openSink(ctx context.Context, c ConsumerConfig, used namesUsed, log *slog.Logger) (sink, error) {
	switch c.Sink {
	case SinkFile:
		config := c.File.sink()
		config.Log, config.Former, config.Ended = log, used.former, used.ended
		return opened(file.Open(config, c.Name))
	case SinkClickHouse:
		return opened(clickhouse.Open(c.ClickHouse.sink(log)))
	case SinkPubSub:
		return opened(pubsub.Open(ctx, c.PubSub.sink()))
	case SinkWebhook:
		return opened(webhook.Open(c.Webhook.sink()))
	}
	return nil, errNoSink
}

// opened keeps a nil pointer from becoming a sink that is not nil.
func opened[S interface {
	comparable
	sink
}](s S, err error) (sink, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
