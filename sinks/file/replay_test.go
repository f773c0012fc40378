package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// A replay beside the owner leaves the owner's open segment alone, and its file
// is not taken for one of the owner's.
func TestReplayBesideTheOwner(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	owner, err := Open(cfg, "feed")
	if err != nil {
		t.Fatal(err)
	}
	live, again := sinktest.Batch(1, 2, 3), sinktest.Batch(2, 2, 3)
	if err := owner.Deliver(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	replay, err := OpenReplay(cfg, "feed")
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := replay.Deliver(cancelled, again); err == nil {
		t.Error("delivered after its time")
	}
	for range 2 { // each batch has a file of its own
		if err := replay.Deliver(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	if err := replay.Close(); err != nil {
		t.Fatal(err)
	}
	if err := owner.Deliver(t.Context(), sinktest.Batch(3, 2, 3)); err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := Open(cfg, "feed") // reads back what the owner left last, not the replay's
	if err != nil {
		t.Fatal(err)
	}
	interrupted := sinktest.Batch(3, 2, 3)
	interrupted.Resumed = true
	if err := next.Deliver(t.Context(), interrupted); err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	lines := map[bool]int{} // by whether the file is a replay's
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "feed-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, ".jsonl") {
			t.Errorf("left open: %s", file)
		}
		lines[strings.Contains(file, "feed-replay-")] += strings.Count(string(text), "\n")
	}
	if lines[false] != 12 || lines[true] != 12 || len(files) != 3 {
		t.Errorf("%d lines of the owner, %d of the replay, in %d files; want 12, 12 and 3", lines[false], lines[true], len(files))
	}
}
