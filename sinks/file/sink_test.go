package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

func TestAcceptance(t *testing.T) {
	dir := t.TempDir()
	sinktest.Run(t, sinktest.Harness{
		Open: func(t *testing.T, consumer string) exporter.Sink { return open(t, Config{Dir: dir}, consumer) },
		Read: func(t *testing.T, consumer string) []sinktest.Record { return read(t, dir, consumer) },
		Break: func(t *testing.T) func() {
			rename(t, dir, dir+".away")
			return func() { rename(t, dir+".away", dir) }
		},
		Dedups: true,
	})
}

// TestAcceptanceInManySegments lets every batch have a segment of its own.
func TestAcceptanceInManySegments(t *testing.T) {
	dir := t.TempDir()
	sinktest.Run(t, sinktest.Harness{
		Open: func(t *testing.T, consumer string) exporter.Sink {
			return open(t, Config{Dir: dir, SegmentBytes: 1}, consumer)
		},
		Read:   func(t *testing.T, consumer string) []sinktest.Record { return read(t, dir, consumer) },
		Dedups: true, // Break: the other run has it
	})
}

func open(t *testing.T, cfg Config, consumer string) *Sink {
	t.Helper()
	s, err := Open(cfg, consumer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// deliver offers b as one that may have been begun before.
func deliver(t *testing.T, s *Sink, b exporter.Batch) {
	t.Helper()
	b.Resumed = true
	if err := s.Deliver(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// read is a reader that takes open segments too, as `tail` would.
func read(t *testing.T, dir, consumer string) []sinktest.Record {
	t.Helper()
	var records []sinktest.Record
	for _, path := range segments(t, dir, consumer) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
			t.Errorf("%s ends in a partial line", path)
		}
		for line := range bytes.Lines(data) {
			var head struct {
				RunID   string `json:"run_id"`
				Seq     int64  `json:"seq"`
				EventID int64  `json:"event_id"`
				Key     string `json:"idempotency_key"`
			}
			if err := json.Unmarshal(line, &head); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			records = append(records, sinktest.Record{
				Identity: exporter.Identity{RunID: head.RunID, Seq: head.Seq, EventID: head.EventID},
				Key:      head.Key, Body: bytes.TrimSuffix(line, []byte("\n")),
			})
		}
	}
	return records
}

// segments are the consumer's files, open and finished, in name order.
func segments(t *testing.T, dir, consumer string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, consumer+"-*"+finishedSuffix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// expectOnce wants the batch's events in the directory, each once, in order.
func expectOnce(t *testing.T, dir, consumer string, batches ...exporter.Batch) {
	t.Helper()
	var want, got []exporter.Identity
	for _, b := range batches {
		for i := range b.Events {
			want = append(want, b.Events[i].Identity())
		}
	}
	for _, r := range read(t, dir, consumer) {
		got = append(got, r.Identity)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the directory holds %d events that are not the %d accepted ones in their order", len(got), len(want))
	}
}

func TestSegmentNamesAndRotation(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, SegmentBytes: 3000}, "feed")
	batches := []exporter.Batch{sinktest.Batch(1, 1, 2), sinktest.Batch(2, 1, 20), sinktest.Batch(3, 1, 2)}
	for _, b := range batches {
		deliver(t, s, b)
	}
	files := segments(t, dir, "feed")
	if len(files) != 2 {
		t.Fatalf("segments %v: want the first two batches in one and the third in the next", files)
	}
	if !strings.HasSuffix(files[0], "-10000001.jsonl") || !strings.HasSuffix(files[1], "-30000001.jsonl.part") {
		t.Errorf("segments %v: want a finished one from event 10000001 and an open one from 30000001", files)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("mode %v, %v: nothing beyond 0640 is allowed", info.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range segments(t, dir, "feed") {
		if strings.HasSuffix(path, openSuffix) {
			t.Errorf("%s is open after Close", path)
		}
	}
	expectOnce(t, dir, "feed", batches...)
	if err := s.Deliver(t.Context(), batches[0]); err == nil {
		t.Error("a closed sink accepted a batch")
	}
}

func TestSegmentAge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, SegmentAge: time.Nanosecond}, "feed")
	deliver(t, s, sinktest.Batch(1, 1, 1))
	deliver(t, s, sinktest.Batch(2, 1, 1))
	if files := segments(t, dir, "feed"); len(files) != 2 {
		t.Errorf("segments %v, want one a batch", files)
	}
}

func TestNamesAscendWhenTheClockGoesBack(t *testing.T) {
	dir := t.TempDir()
	ahead := name{"feed", time.Now().UTC().Add(48 * time.Hour).Truncate(time.Microsecond), 5}
	line := sinktest.Batch(1, 1, 1)
	write(t, filepath.Join(dir, ahead.finished()), append(line.Events[0].AppendJSON(nil), '\n'))
	s := open(t, Config{Dir: dir, SegmentBytes: 1}, "feed")
	deliver(t, s, sinktest.Batch(2, 1, 1))
	deliver(t, s, sinktest.Batch(3, 1, 1))
	expectOnce(t, dir, "feed", line, sinktest.Batch(2, 1, 1), sinktest.Batch(3, 1, 1))
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o640); err != nil {
		t.Fatal(err)
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	const stamp = "20261129T101112.123456Z"
	write(t, target, []byte("torn"))
	foreign := []string{
		"feed_eu-" + stamp + "-1.jsonl.part", "fee-" + stamp + "-1.jsonl.part", "feed-" + stamp + "-1.jsonl.part~",
		"feed-20261129-1.jsonl.part", "feed-" + stamp + "-01.jsonl.part", "feed-" + stamp + "-1.json.part", "feed.part", "x-feed-" + stamp + "-1.jsonl.part",
		"feed-" + stamp + "-1-2.jsonl.part",
	}
	for _, f := range foreign {
		write(t, filepath.Join(dir, f), []byte("torn"))
	}
	link := filepath.Join(dir, "feed-"+stamp+"-2.jsonl.part")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(dir, "feed-"+stamp+"-3.jsonl")
	write(t, done, []byte("a reader's own\nedit"))

	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, sinktest.Batch(1, 2, 2))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(foreign, filepath.Base(link)) {
		if data, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(data) != "torn" {
			t.Errorf("%s was touched: %q, %v", f, data, err)
		}
	}
	if data, err := os.ReadFile(done); err != nil || string(data) != "a reader's own\nedit" {
		t.Errorf("a finished segment was touched: %q, %v", data, err)
	}
}

func TestCheckNamesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := Check(Config{Dir: dir}); err != nil {
		t.Errorf("a good directory: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the check left %v, %v", entries, err)
	}
	plain := filepath.Join(dir, "plain")
	write(t, plain, nil)
	for path, want := range map[string]string{
		"":                           "_FILE_DIR",
		filepath.Join(dir, "absent"): filepath.Join(dir, "absent") + " does not exist: create or mount it",
		plain:                        plain + " is not a directory",
		"/proc/self":                 "directory /proc/self: let user id", // nobody creates files there, not even root
	} {
		if err := Check(Config{Dir: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check %q: %v, want …%s…", path, err, want)
		}
		if s, err := Open(Config{Dir: path}, "feed"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %q: %v, %v, want …%s…", path, s, err, want)
		}
	}
	if _, err := Open(Config{Dir: dir}, "../feed"); err == nil || !strings.Contains(err.Error(), "consumer name") {
		t.Errorf("open with a path as consumer name: %v", err)
	}
}

func TestBatchGoesIntoOneSegment(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, SegmentBytes: 1}, "feed")
	s.chunk = 100
	deliver(t, s, sinktest.Batch(1, 10, 10))
	if files := segments(t, dir, "feed"); len(files) != 1 {
		t.Errorf("one batch went into %v", files)
	}
}

// TestNothingIsWrittenAfterTheContext has a context end between two writes of
// one batch, as a lease does while its owner is suspended.
func TestNothingIsWrittenAfterTheContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir}, "feed")
	s.chunk = 1
	before, b := sinktest.Batch(1, 1, 3), sinktest.Batch(2, 2, 50)
	deliver(t, s, before)
	ctx := &endsAfter{Context: t.Context(), looks: 10}
	if err := s.Deliver(ctx, b); !errors.Is(err, context.Canceled) {
		t.Fatalf("deliver: %v, want the context's error", err)
	}
	if n := len(read(t, dir, "feed")) - len(before.Events); n >= ctx.looks || n == 0 {
		t.Errorf("%d events were written although the context ended at the %dth look", n, ctx.looks)
	}
	deliver(t, s, b)
	expectOnce(t, dir, "feed", before, b)
}

// endsAfter is a context that is over at the n-th look at it.
type endsAfter struct {
	context.Context
	looks, seen int
}

func (c *endsAfter) Err() error {
	if c.seen++; c.seen > c.looks {
		return context.Canceled
	}
	return nil
}

func BenchmarkDeliver(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir()}, "feed")
	if err != nil {
		b.Fatal(err)
	}
	batch := sinktest.Batch(1, 500, 20)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Deliver(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(batch.Events))/b.Elapsed().Seconds(), "events/s")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
