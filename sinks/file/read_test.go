package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

var allIDs = exporter.Ranges{{Lo: 1, Hi: 1 << 40}}

// A reader sees the whole lines of open and finished segments and of replays,
// one that was finished since it was listed too, and nobody else's files.
func TestReaderSeesEveryWholeLine(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	first, second, again := sinktest.Batch(1, 5, 10), sinktest.Batch(2, 5, 10), sinktest.Batch(3, 1, 3)
	again.Events[0].RunID = `a "run", of \ all,"seq":1,"event_id":2 signs` + "\n\u2028ü"
	again.Events[1].Payload = []byte(`"` + strings.Repeat("x", 3<<20) + `"`) // longer than a reader's buffer
	owner := open(t, cfg, "feed")
	deliver(t, owner, first)
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	owner = open(t, cfg, "feed")
	deliver(t, owner, second)
	replay, err := OpenReplay(cfg, "feed")
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.Deliver(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	deliver(t, open(t, cfg, "feed_2"), sinktest.Batch(4, 1, 1))
	write(t, filepath.Join(cfg.Dir, "feed-notes.jsonl"), []byte("{}\n"))
	part := segments(t, cfg.Dir, "feed")[1]
	torn, err := os.OpenFile(part, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"run_id":"half`); err != nil {
		t.Fatal(err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	for foreign, content := range []bool{true, false} { // once it is finished, what is torn is a line that is no event
		r, err := OpenReader(cfg, []string{"feed"}, content)
		if err != nil {
			t.Fatal(err)
		}
		var want uint64
		digest, events := whole(r.Digester()), map[exporter.Identity]uint64{}
		for _, b := range []exporter.Batch{first, second, again} {
			for i := range b.Events {
				d := digest(&b.Events[i])
				events[b.Events[i].Identity()] = d
				want += d
			}
		}
		var got uint64
		lines := int64(0)
		if err := r.Sum(t.Context(), allIDs, 12, func(_, n int64, sum uint64) { lines, got = lines+n, got+sum }); err != nil {
			t.Fatal(err)
		}
		if lines != 103 || got != want || r.Foreign() != int64(foreign) || r.Files() != 3 {
			t.Errorf("%d lines of %d files, sum %x, %d foreign; want 103 lines, sum %x", lines, r.Files(), got, r.Foreign(), want)
		}
		if content {
			rename(t, part, strings.TrimSuffix(part, openSuffix))
		}
		seen := 0
		err = r.Rows(t.Context(), allIDs[0], func(id exporter.Identity, d uint64, _ bool) error {
			if seen++; events[id] != d {
				t.Errorf("%+v has the digest %x, want %x", id, d, events[id])
			}
			return nil
		})
		if err != nil || seen != 103 {
			t.Errorf("%d lines again, %v", seen, err)
		}
	}
}

// What a killed replay has left open is nobody's: no owner finishes it, so that
// its reader never gets it.
func TestReaderLeavesOpenReplaysOut(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	replay, err := OpenReplay(cfg, "feed")
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.sink.Deliver(t.Context(), sinktest.Batch(1, 2, 3)); err != nil { // and no more
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(cfg.Dir, "feed-replay-*.part")); err != nil || len(files) != 1 {
		t.Fatalf("open files %v, %v", files, err)
	}
	r, err := OpenReader(cfg, []string{"feed"}, true)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Sum(t.Context(), allIDs, 12, func(window, lines int64, _ uint64) {
		t.Errorf("%d lines in window %d", lines, window)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Few ids are found again without reading every file.
func TestReaderFindsChunks(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 1}
	s := open(t, cfg, "feed")
	var batches []exporter.Batch
	for seed := range uint64(3) {
		batches = append(batches, sinktest.Batch(seed+1, 2, 5))
		deliver(t, s, batches[seed])
	}
	r, err := OpenReader(cfg, []string{"feed"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} { // their reader takes them away
		if err := os.Remove(segments(t, cfg.Dir, "feed")[i/2]); err != nil {
			t.Fatal(err)
		}
	}
	id := batches[1].Events[3].ID
	var found []exporter.Identity
	err = r.Rows(t.Context(), exporter.Range{Lo: id, Hi: id}, func(i exporter.Identity, _ uint64, _ bool) error {
		found = append(found, i)
		return nil
	})
	if err != nil || len(found) != 1 || found[0] != batches[1].Events[3].Identity() {
		t.Errorf("found %v, %v", found, err)
	}
	if len(r.chunks) != 3 {
		t.Errorf("%d chunks, want one of each file", len(r.chunks))
	}
}

// whole is the digest of an event with its run's columns.
func whole(event, run func(*exporter.Event) uint64) func(*exporter.Event) uint64 {
	return func(e *exporter.Event) uint64 {
		digest := event(e)
		if run != nil {
			digest += run(e)
		}
		return digest
	}
}
