package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/file"
)

func Example() {
	dir, err := os.MkdirTemp("", "segments")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	sink, err := file.Open(file.Config{Dir: dir, SegmentAge: time.Hour}, "feed")
	if err != nil {
		panic(err)
	}
	batch := exporter.Batch{Consumer: "feed", Number: 1, Events: []exporter.Event{
		{ID: 41, RunID: "run-1", Seq: 1, Type: "run_initialized", Payload: []byte(`{"inputs":["url"]}`)},
	}}
	if err := sink.Deliver(context.Background(), batch); err != nil {
		panic(err) // the pipeline would try again
	}
	if err := sink.Close(); err != nil {
		panic(err)
	}

	finished, err := filepath.Glob(filepath.Join(dir, "feed-*-41.jsonl"))
	if err != nil {
		panic(err)
	}
	line, err := os.ReadFile(finished[0])
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s…\n", line[:62])
	// Output: {"run_id":"run-1","seq":1,"event_id":41,"type":"run_initialize…
}
