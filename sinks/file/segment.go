package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// segment is the file that is being written.
type segment struct {
	dir    string
	name   name
	file   *os.File
	info   fs.FileInfo // which file it is, whatever its name becomes
	size   int64       // up to here everything is accepted and fsynced
	opened time.Time
}

// createSegment makes a new, empty file and its directory entry durable. It
// never opens a file that exists, nor follows a link.
func createSegment(dir string, n name) (*segment, error) {
	path := filepath.Join(dir, n.open())
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW
	f, err := os.OpenFile(path, flags, 0o640)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	info, err := f.Stat()
	if lockErr := lock(f); errors.Is(lockErr, syscall.EWOULDBLOCK) { // another error is one of a file system without locks
		err = lockErr
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %s: %w", path, err), f.Close(), os.Remove(path))
	}
	return &segment{dir: dir, name: n, file: f, info: info, opened: time.Now()}, nil
}

func (s *segment) path() string { return filepath.Join(s.dir, s.name.open()) }

// isOurs reports whether the path still leads to our file. A new owner renames
// what it finds, and then the file belongs to a reader.
func (s *segment) isOurs() bool {
	info, err := os.Lstat(s.path())
	return err == nil && os.SameFile(info, s.info)
}

// touched says in words what somebody has done to the file since our last write;
// empty when it is ours and as long as we left it. gone says that accepted lines
// may be lost with it.
func (s *segment) touched() (what string, gone bool) {
	info, err := os.Lstat(s.path())
	if err == nil && os.SameFile(info, s.info) {
		switch {
		case info.Size() < s.size:
			return fmt.Sprintf("somebody has cut the open segment from %d to %d bytes: accepted events are gone", s.size, info.Size()), true
		case info.Size() > s.size:
			return "somebody else has written to the open segment; its whole lines stay", false
		}
		return "", false
	}
	if info, err := os.Lstat(filepath.Join(s.dir, s.name.finished())); err == nil && os.SameFile(info, s.info) {
		return "another owner has taken the open segment", false
	}
	return fmt.Sprintf("somebody has taken the open segment away: %d bytes of accepted events are gone, "+
		"unless another owner had finished it and it was read", s.size), true
}

// finish gives the segment, whose content is fsynced, to the reader. On an
// error it can be called again.
func (s *segment) finish() error {
	if err := handOver(s.dir, s.name, s.size); err != nil {
		return err
	}
	return s.file.Close()
}

// mend cuts the file back to what is accepted and hands it over; ours is false
// when a new owner has taken it. It opens the file anew, since after an I/O
// error the old descriptor cannot be relied on.
func (s *segment) mend() (ours bool, err error) {
	f, err := os.OpenFile(s.path(), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("mend segment: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !os.SameFile(info, s.info) {
		return false, err
	}
	if err := cut(f, s.size); err != nil {
		return true, err
	}
	return true, handOver(s.dir, s.name, s.size)
}

// cut makes the file size bytes long, durably.
func cut(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("cut segment: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("fsync segment: %w", err)
	}
	return nil
}

// handOver gives a segment its final name; an empty one is removed. It is not
// an error when another owner has been faster.
func handOver(dir string, n name, size int64) error {
	from, to := filepath.Join(dir, n.open()), filepath.Join(dir, n.finished())
	var err error
	if size == 0 {
		err = os.Remove(from)
	} else if _, statErr := os.Lstat(to); statErr == nil {
		err = fmt.Errorf("%s exists: move one of the two files away", to)
	} else {
		err = os.Rename(from, to)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("finish segment %s: %w", from, err)
	}
	return syncDir(dir)
}
