package main

import (
	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/file"
)

// sink is an open sink. Close gives its resources back.
type sink interface {
	exporter.Sink
	Close() error
}

// openSink opens the sink of a consumer for its owner.
func openSink(c ConsumerConfig) (sink, error) {
	return file.Open(c.File.sink(), c.Name)
}

// sinkVariables names the variables that say where a consumer's sink is.
func (c *ConsumerConfig) sinkVariables() string { return c.Prefix() + "FILE_DIR" }
