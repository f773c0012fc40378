package pgserver

import (
	"fmt"
	"io"
	"os"
)

// tailBytes is how much of the log an error carries.
const tailBytes = 4000

func (c *Cluster) openLog() error {
	f, err := os.OpenFile(c.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		_ = f.Close() // the seek error says more
		return fmt.Errorf("find end of server log: %w", err)
	}
	c.log, c.logStart = f, size
	return nil
}

// logTail is the end of what the server has logged since its last start.
func (c *Cluster) logTail() string {
	f, err := os.Open(c.LogPath())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // opened for reading only
	from := c.logStart
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-tailBytes)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
