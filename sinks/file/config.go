package file

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// Config says where segments go and when they end.
type Config struct {
	Dir          string        // must exist; never created by us, so that a missing mount is noticed
	SegmentBytes int64         // a segment of at least this size takes no further batch; 0 means 256 MiB
	SegmentAge   time.Duration // nor does one that was opened this long ago; 0 means an hour
	Former       []string      // names that the consumer had before
	Ended        []string      // names of backfills of it that have ended
	Log          *slog.Logger  // says what was repaired, and what others did to our files; nil discards
}

func (c Config) withDefaults() Config {
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = 256 << 20
	}
	if c.SegmentAge <= 0 {
		c.SegmentAge = time.Hour
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Check reports whether segments could be written to the directory, by writing
// a file there and removing it. The error names the directory and what to do.
func Check(cfg Config) error { return probe(cfg.Dir, "x") }

// probe creates a file with the content in dir. Without content it also goes
// through on a full disk, which is no reason not to start.
func probe(dir, content string) (err error) {
	if dir == "" {
		return errors.New("no directory is set for the segments: set the consumer's …_FILE_DIR")
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %s does not exist: create or mount it: %w", dir, err)
	case err != nil:
		return fmt.Errorf("look at directory %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: name the directory that shall hold the segments", dir)
	}
	f, err := os.CreateTemp(dir, ".exporter-check-*")
	if err != nil {
		return fmt.Errorf("create a file in directory %s: let user id %d write there: %w", dir, os.Geteuid(), err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.WriteString(content); err != nil {
		return fmt.Errorf("write to directory %s: make room there: %w", dir, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("fsync a file in directory %s: use a file system that can: %w", dir, err)
	}
	if _, err := os.ReadDir(dir); err != nil {
		return fmt.Errorf("list directory %s: let user id %d read it: %w", dir, os.Geteuid(), err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("fsync directory %s: %w", dir, err)
	}
	return nil
}
