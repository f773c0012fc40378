package main

import (
	"context"
	"fmt"
	"strings"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
	"github.com/docket-exporter/exporter/sinks/file"
)

// readable is an open sink that is read.
type readable interface {
	reconcile.Copy
	Count(ctx context.Context, ids exporter.Ranges) (int64, error)
	Close() error
}

// openCopy opens the consumer's sink to be read.
func (j *reconciliation) openCopy(ctx context.Context) (readable, error) {
	content := !j.identities
	if j.consumer.Sink == SinkFile {
		config := j.consumer.File.sink()
		config.Former, config.Ended = j.names.former, j.names.ended
		r, err := file.OpenReader(config, j.names.own, content)
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
func (j *reconciliation) remarks(copies readable, places located) (remarks []string) {
	switch r := copies.(type) {
	case *file.Reader:
		if n := r.Foreign() + places.invented; n > 0 {
			remarks = append(remarks, plural(n, "line")+" of the files that are no events: "+places.foreignText(r))
		}
		if r.Files() == 0 {
			remarks = append(remarks, "there are no files; segments that were taken away cannot be compared")
		}
		remarks = append(remarks, j.names.remarks(r)...)
	case *clickhouse.Reader:
		for _, column := range r.Leaves() {
			remarks = append(remarks, fmt.Sprintf("column %s is not compared: its type keeps no text", column))
		}
	}
	return remarks
}

// remarks names files that are there and may be taken for others.
func (n *namesUsed) remarks(r *file.Reader) (remarks []string) {
	if left, err := r.LeftOpen(); err == nil && len(left) > 0 {
		remarks = append(remarks, fmt.Sprintf("%s left open by a process that was killed, and no reader takes it: %s; it counts once a process has claimed the consumer, which finishes it",
			plural2(int64(len(left)), "file is", "files are"), oneLine(strings.Join(left, ", "))))
	}
	for _, name := range n.taken {
		if r.HasFilesOf(name) {
			remarks = append(remarks, fmt.Sprintf("files %s-… are left out: another consumer has that name now, or has had it since", name))
		}
	}
	for _, name := range n.mixed {
		if r.HasFilesOf(name) {
			remarks = append(remarks, fmt.Sprintf("files %s-… count, though another consumer has had that name before and may have written some of them", name))
		}
	}
	return remarks
}
