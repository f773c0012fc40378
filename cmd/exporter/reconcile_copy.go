package main

import (
	"context"
	"fmt"

	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
	"github.com/docket-exporter/exporter/sinks/file"
)

// readable is an open sink that is read.
type readable interface {
	reconcile.Copy
	Close() error
}

// openCopy opens the consumer's sink to be read.
func (j *reconciliation) openCopy(ctx context.Context) (readable, error) {
	content := !j.identities
	if j.consumer.Sink == SinkFile {
		r, err := file.OpenReader(j.consumer.File.sink(), j.consumer.Name, content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.consumer.sinkVariables(), err)
		}
		return r, nil
	}
	r, err := clickhouse.OpenReader(ctx, j.consumer.ClickHouse.sink(j.p.logger(j.config.Log)), content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.consumer.sinkVariables(), err)
	}
	return r, nil
}

// remarks says what a sink's digests leave out.
func remarks(copies readable) (remarks []string) {
	switch r := copies.(type) {
	case *file.Reader:
		if r.Foreign() > 0 {
			remarks = append(remarks, plural(r.Foreign(), "line")+" of the files that are no events")
		}
		if r.Files() == 0 {
			remarks = append(remarks, "there are no files; segments that were taken away cannot be compared")
		}
	case *clickhouse.Reader:
		for _, column := range r.Leaves() {
			remarks = append(remarks, fmt.Sprintf("column %s is not compared: its type keeps no text", column))
		}
	}
	return remarks
}
