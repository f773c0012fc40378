package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/docket-exporter/exporter"
)

// key is an event's idempotency key: its identity in one comparable value.
type key [64]byte

func keyOf(e *exporter.Event) key {
	var k key
	e.Identity().AppendKey(k[:0])
	return k
}

// keyOfLine takes the key from where AppendJSON puts it: at the end.
func keyOfLine(line []byte) (k key, ok bool) {
	const before, after = `,"idempotency_key":"`, "\"}\n"
	line, ok = bytes.CutSuffix(line, []byte(after))
	if !ok || len(line) < len(k) {
		return k, false
	}
	copy(k[:], line[len(line)-len(k):])
	return k, bytes.HasSuffix(line[:len(line)-len(k)], []byte(before))
}

// readBack returns which of the events are already in the finished segments.
// It reads lines from the newest backwards and gives up after as many foreign
// ones as there are events: a batch that an earlier owner began is at the end.
func readBack(dir string, finished []name, events []exporter.Event) (map[key]bool, error) {
	wanted := make(map[key]bool, len(events))
	for i := range events {
		wanted[keyOf(&events[i])] = true
	}
	s := search{wanted: wanted, found: map[key]bool{}, patience: len(events)}
	for i := len(finished) - 1; i >= 0 && !s.over(); i-- {
		if err := s.file(filepath.Join(dir, finished[i].finished())); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

type search struct {
	wanted, found map[key]bool
	patience      int // foreign lines still to be read
}

func (s *search) over() bool { return s.patience <= 0 || len(s.found) == len(s.wanted) }

func (s *search) file(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its reader has taken it away
	}
	if err != nil {
		return fmt.Errorf("read back segment: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read back segment %s: %w", path, err)
	}
	for lines := newBackward(f, info.Size()); !s.over(); {
		line, _, err := lines.prev()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read back segment %s: %w", path, err)
		}
		if k, ok := keyOfLine(line); ok && s.wanted[k] {
			s.found[k] = true
		} else {
			s.patience--
		}
	}
	return nil
}
