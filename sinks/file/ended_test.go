package file

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// What was left open under earlier names is finished, with its torn tail cut, and
// a batch that lies there already is not written again. What somebody still
// writes, and what is of other names, stays.
func TestLeftUnderEarlierNames(t *testing.T) {
	dir := t.TempDir()
	b1, b2 := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5)
	at := func(consumer string, id int64) string {
		return filepath.Join(dir, name{consumer, time.Date(2026, 11, 29, 10, 0, int(id), 0, time.UTC), id}.open())
	}
	write(t, at("old", 1), append(lines(b1.Events), `{"run_id":"torn`...))
	write(t, at("history", 2), lines(b2.Events))
	write(t, at("other", 3), lines(b2.Events))
	writer := open(t, Config{Dir: dir}, "busy")
	deliver(t, writer, b2)

	var log bytes.Buffer
	s := open(t, Config{Dir: dir, Former: []string{"old"}, Ended: []string{"history", "busy"}, Log: slog.New(slog.NewTextHandler(&log, nil))}, "feed")
	b1.Resumed = true
	deliver(t, s, b1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(strings.TrimSuffix(at("old", 1), openSuffix)); err != nil || !bytes.Equal(got, lines(b1.Events)) {
		t.Errorf("the file of the former name: %v, %d bytes", err, len(got))
	}
	if _, err := os.Stat(strings.TrimSuffix(at("history", 2), openSuffix)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(at("other", 3)); err != nil {
		t.Errorf("a file of another consumer: %v", err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "feed-*")); err != nil || len(files) != 0 {
		t.Errorf("a batch that was there is in %q, %v", files, err)
	}
	if !strings.Contains(log.String(), "somebody may still write it") || !strings.Contains(log.String(), "busy-") {
		t.Errorf("the log says %s", log.String())
	}
	deliver(t, writer, b1)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	expectOnce(t, dir, "busy", b2, b1)
}

// Between two writes of a batch an owner sleeps past its lease, and the next one
// finishes its file: nothing comes behind.
func TestSleeperWritesNoMore(t *testing.T) {
	for _, what := range []string{"by the clock", "by the name"} {
		dir := t.TempDir()
		b1, b2 := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 50)
		s := open(t, Config{Dir: dir}, "feed")
		s.chunk = 1
		deliver(t, s, b1)
		path, end, asked := s.open.path(), time.Now().Add(time.Hour), 0
		var finished []byte
		ctx := exporter.WithEnd(t.Context(), func() time.Time {
			if asked++; asked != 30 {
				return end
			}
			if what == "by the clock" {
				end = time.Now().Add(-time.Second)
			}
			if err := os.Rename(path, strings.TrimSuffix(path, openSuffix)); err != nil {
				t.Error(err)
			}
			finished, _ = os.ReadFile(strings.TrimSuffix(path, openSuffix))
			return end
		})
		if err := s.Deliver(ctx, b2); err == nil {
			t.Errorf("%s: accepted", what)
		}
		if got, err := os.ReadFile(strings.TrimSuffix(path, openSuffix)); err != nil || !bytes.Equal(got, finished) || len(got) == 0 {
			t.Errorf("%s: the finished file had %d bytes and has %d, %v", what, len(finished), len(got), err)
		}
		if err := context.Cause(ctx); err != nil {
			t.Errorf("%s: the context has ended: %v", what, err)
		}
	}
}
