package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// finishEnded finishes what sinks of the names in Former and Ended have left open.
// Who writes a segment holds a lock on it, which goes with the process: a segment
// that is locked is left alone, whatever is known of its name.
func (s *Sink) finishEnded() error {
	for _, ended := range [][]string{s.cfg.Former, s.cfg.Ended} {
		for _, consumer := range ended {
			l, err := list(s.cfg.Dir, consumer)
			if err != nil {
				return err
			}
			for _, n := range l.open {
				if err := s.finishLeft(n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Sink) finishLeft(n name) error {
	path := filepath.Join(s.cfg.Dir, n.open())
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at segment: %w", err)
	}
	defer f.Close()
	if err := lock(f); err != nil {
		s.cfg.Log.Warn("a segment is left open under a name that nobody has any more; somebody may still write it", "file", path, "err", err)
		return nil
	}
	return repair(s.cfg.Dir, n, s.cfg.Log)
}

// lock takes the lock of whoever writes a segment, without waiting.
func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock segment: %w", err)
	}
	return nil
}
