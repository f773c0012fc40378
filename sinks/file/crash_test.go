package file

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestKilledWhileWriting kills a process with a batch half written, at several
// sizes, and wants each event once after the batch has come again.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	b := sinktest.Batch(crashSeed, crashRuns, crashPerRun)
	before := 0
	for _, progress := range []int64{1, 100_000, 1_000_000} {
		earlier := segments(t, dir, "feed")
		cmd := child(t, "deliver for ever", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitOpenSegment(t, dir, earlier, progress)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed; how it ended is the next lines' matter
		if code := cmd.ProcessState.ExitCode(); code != -1 {
			t.Fatalf("the child ended by itself with code %d", code)
		}
		written := countLines(t, dir)
		if written <= before || written >= len(b.Events) {
			t.Fatalf("%d of %d events were written after %d: not killed in the middle", written, len(b.Events), before)
		}
		before = written
	}
	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, b)
	expectOnce(t, dir, "feed", b)
}

// awaitOpenSegment waits until an open segment that was not there earlier has at
// least size bytes.
func awaitOpenSegment(t *testing.T, dir string, earlier []string, size int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no progress seen within a minute")
		}
		for _, path := range segments(t, dir, "feed") {
			if slices.Contains(earlier, path) || !strings.HasSuffix(path, openSuffix) {
				continue
			}
			if info, err := os.Stat(path); err == nil && info.Size() >= size {
				return
			}
		}
	}
}

func countLines(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, path := range segments(t, dir, "feed") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(data, []byte("\n"))
	}
	return n
}
