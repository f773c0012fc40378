package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// repair finishes a segment that an owner has left open: the torn tail is cut,
// what stays is fsynced, and the file gets its final name. Complete lines stay
// even when their batch was not accepted; readBack finds them.
func repair(dir string, n name, log *slog.Logger) error {
	path := filepath.Join(dir, n.open())
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another owner was faster
	}
	if err != nil {
		return fmt.Errorf("repair segment: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("repair segment %s: %w", path, err)
	}
	keep, err := soundLength(f, info.Size())
	if err != nil {
		return fmt.Errorf("repair segment %s: %w", path, err)
	}
	if err := cut(f, keep); err != nil {
		return err
	}
	log.Info("segment repaired", "file", path, "bytes", keep, "cut", info.Size()-keep)
	return handOver(dir, n, keep)
}

// soundLength returns how much of a file is whole lines. A power cut can leave
// zero bytes where data was not written, also before lines that were; we never
// write one, and all that was accepted comes before the first.
func soundLength(f io.ReaderAt, size int64) (int64, error) {
	size, err := firstZero(f, size)
	if err != nil {
		return 0, err
	}
	lines := newBackward(f, size)
	for {
		line, start, err := lines.prev()
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if bytes.HasSuffix(line, []byte{'\n'}) && json.Valid(line) {
			return start + int64(len(line)), nil
		}
	}
}

// firstZero returns the offset of the first zero byte, or size.
func firstZero(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, min(size, 256<<10))
	for at := int64(0); at < size; {
		n, err := f.ReadAt(buf[:min(size-at, int64(len(buf)))], at)
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
			return at + int64(i), nil
		}
		if at += int64(n); err != nil {
			return 0, fmt.Errorf("read at %d: %w", at, err)
		}
	}
	return size, nil
}
