package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

const roomBytes = 1 << 20 // what the small disk and the size limit allow

// TestFullDisk fills a real file system that is mounted for the child alone.
// Where that is not allowed, TestFileSizeLimit is the same story told by the
// kernel's limit on file sizes.
func TestFullDisk(t *testing.T) {
	cmd := child(t, "small disk", t.TempDir())
	cmd.SysProcAttr = ownMounts()
	err := cmd.Run()
	if cmd.Process == nil && errors.Is(err, syscall.EPERM) {
		cmd = child(t, "size limit", t.TempDir())
		err = cmd.Run()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestFileSizeLimit(t *testing.T) {
	if err := child(t, "size limit", t.TempDir()).Run(); err != nil {
		t.Error(err)
	}
}

// ownMounts gives a child a mount table, and when we are not root a user table,
// of its own.
func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

func onSmallDisk(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", roomBytes)); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, roomBytes/2), 0o600); err != nil {
		return err
	}
	return runsOutOfRoom(dir, syscall.ENOSPC, func() error { return os.Remove(filler) })
}

func underSizeLimit(dir string) error {
	signal.Ignore(syscall.SIGXFSZ) // then write returns EFBIG instead
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: roomBytes / 2, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return runsOutOfRoom(dir, syscall.EFBIG, func() error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	})
}

// runsOutOfRoom delivers a batch for which there is no room, wants the answer
// "unavailable" and no trace of it, again and again and also from a new owner,
// and delivers it once there is room.
func runsOutOfRoom(dir string, want error, makeRoom func() error) error {
	ctx := context.Background()
	s, err := Open(Config{Dir: dir}, "feed")
	if err != nil {
		return err
	}
	small, big, tiny := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 10, 130), sinktest.Batch(3, 1, 1)
	if n := len(lines(big.Events)); n < roomBytes/2 || n > roomBytes*9/10 {
		return fmt.Errorf("the big batch has %d bytes, which does not fit the test", n)
	}
	if err := s.Deliver(ctx, small); err != nil {
		return err
	}
	for round := range 4 {
		s.chunk = []int{chunkBytes, 1, 5000, chunkBytes}[round]
		if err := expectNoRoom(s.Deliver(ctx, big), want); err != nil {
			return err
		}
		if err := holds(dir, small); err != nil {
			return fmt.Errorf("after %v: %w", want, err)
		}
		if round < 2 {
			continue
		}
		if s, err = Open(Config{Dir: dir}, "feed"); err != nil { // a full disk is no reason not to start
			return err
		}
	}
	if err := s.Deliver(ctx, tiny); err != nil {
		return fmt.Errorf("a batch for which there is room: %w", err)
	}
	if err := makeRoom(); err != nil {
		return err
	}
	if err := s.Deliver(ctx, big); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return holds(dir, small, tiny, big)
}

func expectNoRoom(err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("deliver without room: %w, want %w", err, want)
	}
	if _, rejected := errors.AsType[*exporter.RejectedError](err); rejected {
		return errors.New("events were rejected because there is no room")
	}
	return nil
}

// holds compares the bytes of all segments with the batches.
func holds(dir string, batches ...exporter.Batch) error {
	var want, got []byte
	for _, b := range batches {
		want = append(want, lines(b.Events)...)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "feed-*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s hold %d bytes, want exactly the accepted %d", strings.Join(paths, ", "), len(got), len(want))
	}
	return nil
}

// swapFile puts another file under the sink's open segment.
func swapFile(t *testing.T, s *Sink, f *os.File) {
	t.Helper()
	if err := s.open.file.Close(); err != nil {
		t.Fatal(err)
	}
	s.open.file = f
}

// TestSegmentThatCannotBeCut has a descriptor on which neither writing nor
// cutting works: the segment is mended before anything else is written.
func TestSegmentThatCannotBeCut(t *testing.T) {
	dir := t.TempDir()
	before, b := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5)
	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, before)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	torn, err := os.OpenFile(s.open.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	swapFile(t, s, full)
	s.chunk = 1
	ctx := &callsAt{Context: t.Context(), look: 3, call: func() { // after the look at the file's size
		if _, err := torn.WriteString(`{"run_id":"to`); err != nil {
			t.Error(err)
		}
	}}
	if err := s.Deliver(ctx, b); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("deliver: %v, want ENOSPC", err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, b)
	expectOnce(t, dir, "feed", before, b)
}

// callsAt calls once at the n-th look at the context.
type callsAt struct {
	context.Context
	look, seen int
	call       func()
}

func (c *callsAt) Err() error {
	if c.seen++; c.seen == c.look {
		c.call()
	}
	return c.Context.Err()
}

// TestFailedFsync has a descriptor that takes writes and cannot be fsynced: no
// acceptance, and no further batch in that file.
func TestFailedFsync(t *testing.T) {
	dir := t.TempDir()
	before, b := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5)
	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, before)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	swapFile(t, s, writer)
	if err := s.Deliver(t.Context(), b); err == nil || !strings.Contains(err.Error(), "fsync") {
		t.Fatalf("deliver: %v, want an fsync error", err)
	}
	deliver(t, s, b)
	expectOnce(t, dir, "feed", before, b)
	if files := segments(t, dir, "feed"); len(files) != 2 {
		t.Errorf("segments %v: want a new one after the failed fsync", files)
	}
}

func TestSegmentChangedByOthers(t *testing.T) {
	dir := t.TempDir()
	b1, b2 := sinktest.Batch(1, 2, 5), sinktest.Batch(2, 2, 5)
	s := open(t, Config{Dir: dir}, "feed")
	deliver(t, s, b1)
	f, err := os.OpenFile(s.open.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("torn by another hand"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, b2)
	expectOnce(t, dir, "feed", b1, b2)
}
