package file

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

func lines(events []exporter.Event) []byte {
	var data []byte
	for i := range events {
		data = append(events[i].AppendJSON(data), '\n')
	}
	return data
}

func leftover(dir string) string {
	return dir + "/" + name{"feed", time.Date(2026, 11, 29, 10, 11, 12, 123456000, time.UTC), 7}.open()
}

// TestTornTailOfEveryLength leaves a segment that ends after each byte of its
// last line, delivers the whole batch again, and wants each event once.
func TestTornTailOfEveryLength(t *testing.T) {
	b := sinktest.Batch(1, 1, 3)
	whole, sound := lines(b.Events), lines(b.Events[:2])
	for length := len(sound); length <= len(whole); length++ {
		dir := t.TempDir()
		write(t, leftover(dir), whole[:length])
		s := open(t, Config{Dir: dir}, "feed")
		want := sound
		if length == len(whole) {
			want = whole
		}
		got, err := os.ReadFile(strings.TrimSuffix(leftover(dir), openSuffix))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("cut after %d bytes: %v, %d bytes kept, want %d", length, err, len(got), len(want))
		}
		deliver(t, s, b)
		expectOnce(t, dir, "feed", b)
	}
}

// TestDamageOfAPowerCut leaves what file systems leave: zero bytes in place of
// data, at the end and before it.
func TestDamageOfAPowerCut(t *testing.T) {
	b := sinktest.Batch(1, 1, 6)
	sound, last := lines(b.Events[:3]), lines(b.Events[3:])
	hole := bytes.Clone(last)
	clear(hole[5:300])
	for what, tail := range map[string][]byte{
		"zeros":               make([]byte, 5000),
		"zeros and a newline": append(make([]byte, 5000), '\n'),
		"zeros before lines":  hole,
		"half a line ended":   append(bytes.Clone(last[:100]), '\n'),
		"an empty line":       []byte("\n"),
		"many empty lines":    bytes.Repeat([]byte("\n"), 200_000),
		"a long torn line":    bytes.Repeat([]byte("x"), 3*window+1),
		"a cut rune":          []byte(`{"run_id":"` + "\xe6\x97"),
	} {
		dir := t.TempDir()
		write(t, leftover(dir), slices.Concat(sound, tail))
		s := open(t, Config{Dir: dir}, "feed")
		got, err := os.ReadFile(strings.TrimSuffix(leftover(dir), openSuffix))
		if err != nil || !bytes.Equal(got, sound) {
			t.Errorf("%s: %v, kept %d bytes, want %d", what, err, len(got), len(sound))
		}
		deliver(t, s, b)
		expectOnce(t, dir, "feed", b)
	}
}

func TestLeftoverWithNothingSoundIsRemoved(t *testing.T) {
	for _, content := range []string{"", "torn", "\x00\x00\x00\n"} {
		dir := t.TempDir()
		write(t, leftover(dir), []byte(content))
		open(t, Config{Dir: dir}, "feed")
		if files := segments(t, dir, "feed"); len(files) != 0 {
			t.Errorf("leftover %q became %v", content, files)
		}
	}
}

// TestReadBackReachesOverSegments has the batch's lines in several segments,
// behind and before others.
func TestReadBackReachesOverSegments(t *testing.T) {
	dir := t.TempDir()
	old, b := sinktest.Batch(1, 2, 10), sinktest.Batch(2, 4, 10)
	first, second := b, b
	first.Events, second.Events = b.Events[:13], b.Events[13:30]
	s := open(t, Config{Dir: dir, SegmentBytes: 1}, "feed")
	for _, part := range []exporter.Batch{old, first, second} {
		deliver(t, s, part)
	}
	s = open(t, Config{Dir: dir}, "feed")
	deliver(t, s, b)
	expectOnce(t, dir, "feed", old, b)
	deliver(t, s, sinktest.Batch(3, 1, 1))
	if s.fresh {
		t.Error("the sink still reads back")
	}
}

func TestReadBackOfSegmentsTakenAway(t *testing.T) {
	dir := t.TempDir()
	b := sinktest.Batch(1, 1, 3)
	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range segments(t, dir, "feed") { // its reader is done with it
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	deliver(t, open(t, Config{Dir: dir}, "feed"), b)
	expectOnce(t, dir, "feed", b)
}

// TestStaleAndNewOwner has the old owner wake up with its segment taken, try to
// write after its lease, and later own the consumer again.
func TestStaleAndNewOwner(t *testing.T) {
	dir := t.TempDir()
	b1, b2, b3, b4 := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5), sinktest.Batch(3, 2, 5), sinktest.Batch(4, 2, 5)
	stale := open(t, Config{Dir: dir}, "feed")
	deliver(t, stale, b1)

	fresh := open(t, Config{Dir: dir}, "feed")
	deliver(t, fresh, b2)
	over, end := context.WithCancel(t.Context())
	end()
	if err := stale.Deliver(over, b2); err == nil {
		t.Error("accepted after the lease")
	}
	expectOnce(t, dir, "feed", b1, b2)

	// The new owner wrote b3 and died before it could say so.
	deliver(t, fresh, b3)
	deliver(t, stale, b3)
	deliver(t, stale, b4)
	expectOnce(t, dir, "feed", b1, b2, b3, b4)

	// And the other way round: the one that lost its segment closes it.
	if err := fresh.Close(); err != nil {
		t.Errorf("close a segment that was taken: %v", err)
	}
	expectOnce(t, dir, "feed", b1, b2, b3, b4)
}

// TestAnotherOwnerWhileNothingWasOpen covers an owner that came and went while
// this one had no segment of its own to be taken.
func TestAnotherOwnerWhileNothingWasOpen(t *testing.T) {
	dir := t.TempDir()
	b0, b := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5)
	first := open(t, Config{Dir: dir}, "feed")
	deliver(t, first, b0)
	idle := open(t, Config{Dir: dir}, "feed")
	deliver(t, idle, b0) // all of it is there: no segment is begun
	other := open(t, Config{Dir: dir}, "feed")
	deliver(t, other, b)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	deliver(t, idle, b)
	expectOnce(t, dir, "feed", b0, b)
}

// TestCancelledThenTaken has the context end within a batch whose whole lines a
// new owner counts on: the old one must not remove them.
func TestCancelledThenTaken(t *testing.T) {
	dir := t.TempDir()
	b := sinktest.Batch(2, 2, 50)
	stale := open(t, Config{Dir: dir}, "feed")
	stale.chunk = 1
	if err := stale.Deliver(&endsAfter{Context: t.Context(), looks: 20}, b); err == nil {
		t.Fatal("accepted")
	}
	fresh := open(t, Config{Dir: dir}, "feed")
	expectOnce(t, dir, "feed", exporter.Batch{Events: b.Events[:19]}) // one look came before the first line
	deliver(t, fresh, b)
	deliver(t, stale, b) // it owns the consumer again
	if err := errors.Join(stale.Close(), fresh.Close()); err != nil {
		t.Error(err)
	}
	expectOnce(t, dir, "feed", b)
}

// TestBatchThatIsWantedAgain: after a deliberate step back the events come a
// second time, all of them.
func TestBatchThatIsWantedAgain(t *testing.T) {
	dir := t.TempDir()
	b := sinktest.Batch(1, 2, 5)
	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Config{Dir: dir}, "feed").Deliver(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := len(read(t, dir, "feed")); got != 2*len(b.Events) {
		t.Errorf("%d events, want each of the %d twice", got, len(b.Events))
	}
}

// TestCloseAfterCancel leaves the whole lines of the unfinished batch to the
// next owner, in a finished segment.
func TestCloseAfterCancel(t *testing.T) {
	dir := t.TempDir()
	b := sinktest.Batch(2, 2, 50)
	s := open(t, Config{Dir: dir}, "feed")
	s.chunk = 1
	if err := s.Deliver(&endsAfter{Context: t.Context(), looks: 20}, b); err == nil {
		t.Fatal("accepted")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if files := segments(t, dir, "feed"); len(files) != 1 || strings.HasSuffix(files[0], openSuffix) {
		t.Errorf("segments after Close: %v", files)
	}
	deliver(t, open(t, Config{Dir: dir}, "feed"), b)
	expectOnce(t, dir, "feed", b)
}

// TestTakenAndGivenBack has a new owner that only repaired: the old one must
// see which of its unaccepted lines were kept.
func TestTakenAndGivenBack(t *testing.T) {
	dir := t.TempDir()
	b := sinktest.Batch(2, 2, 50)
	s := open(t, Config{Dir: dir}, "feed")
	s.chunk = 1
	if err := s.Deliver(t.Context(), sinktest.Batch(1, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(&endsAfter{Context: t.Context(), looks: 20}, b); err == nil {
		t.Fatal("accepted")
	}
	if err := open(t, Config{Dir: dir}, "feed").Close(); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, b)
	expectOnce(t, dir, "feed", sinktest.Batch(1, 1, 1), b)
}

// TestOpenSegmentIsTouched does to the open segment what somebody may do, and
// wants it said, loudest where accepted events are gone.
func TestOpenSegmentIsTouched(t *testing.T) {
	b1, b2 := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5)
	for what, x := range map[string]struct {
		do   func(path string) error
		want string
		gone bool
	}{
		"nothing":        {func(string) error { return nil }, "", false},
		"removed":        {os.Remove, "level=ERROR msg=\"somebody has taken the open segment away", true},
		"cut":            {func(path string) error { return os.Truncate(path, 100) }, "level=ERROR msg=\"somebody has cut the open segment", true},
		"appended to":    {func(path string) error { return appendTo(path, "junk") }, "level=WARN msg=\"somebody else has written", false},
		"another's file": {func(path string) error { return errors.Join(os.Remove(path), appendTo(path, "junk\n")) }, "level=ERROR msg=\"somebody has taken", true},
		"finished":       {func(path string) error { return os.Rename(path, strings.TrimSuffix(path, openSuffix)) }, "level=WARN msg=\"another owner has taken", false},
	} {
		for _, end := range []string{"deliver", "close"} {
			dir := t.TempDir()
			var log bytes.Buffer
			s := open(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}, "feed")
			deliver(t, s, b1)
			if err := x.do(s.open.path()); err != nil {
				t.Fatal(err)
			}
			if end == "deliver" {
				deliver(t, s, b2)
			} else if err := s.Close(); err != nil {
				t.Errorf("%s: close: %v", what, err)
			}
			said := log.String()
			if !strings.Contains(said, x.want) || x.want == "" && strings.Contains(said, "somebody") {
				t.Errorf("%s, then %s: the log says %q", what, end, said)
			}
			if loud := strings.Contains(said, "reconcile --consumer feed"); loud != x.gone {
				t.Errorf("%s, then %s: told that events are gone: %v", what, end, loud)
			}
			switch {
			case x.gone:
			case end == "deliver":
				expectOnce(t, dir, "feed", b1, b2)
			default:
				expectOnce(t, dir, "feed", b1)
			}
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
