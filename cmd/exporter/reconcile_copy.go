package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
	"github.com/docket-exporter/exporter/sinks/file"
)

// readable is an open sink that is read.
type readable interface {
	reconcile.Copy
	Above(ctx context.Context, id int64) (int64, error)
	Close() error
}

// openCopy opens the consumer's sink to be read.
func (j *reconciliation) openCopy(ctx context.Context) (readable, error) {
	content := !j.identities
	if j.consumer.Sink == SinkFile {
		names, err := j.fileNames(ctx)
		if err != nil {
			return nil, err
		}
		r, err := file.OpenReader(j.consumer.File.sink(), names, content)
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

// fileNames are the names under which files of the consumer are written: its own,
// and those of its backfills.
func (j *reconciliation) fileNames(ctx context.Context) ([]string, error) {
	names := []string{j.consumer.Name}
	backfills, err := j.store.Backfills(ctx)
	if err != nil {
		return nil, err
	}
	for i := range backfills {
		spec, err := specOf(&backfills[i])
		if err != nil {
			return nil, err
		}
		if spec.Consumer == j.consumer.Name {
			names = append(names, backfills[i].Name)
		}
	}
	return names, nil
}

// foreign is how many lines of a sink are no events.
func foreign(copies readable) int64 {
	if r, ok := copies.(*file.Reader); ok {
		return r.Foreign()
	}
	return 0
}

// places names the first lines that are no events.
func places(r *file.Reader) string {
	var texts []string
	for _, at := range r.ForeignAt() {
		texts = append(texts, fmt.Sprintf("%s line %d", oneLine(at.File), at.Line))
	}
	if r.Foreign() > int64(len(texts)) {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// remarks says what a sink's digests leave out.
func remarks(copies readable) (remarks []string) {
	switch r := copies.(type) {
	case *file.Reader:
		if r.Foreign() > 0 {
			remarks = append(remarks, plural(r.Foreign(), "line")+" of the files that are no events: "+places(r))
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
