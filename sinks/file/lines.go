package file

import (
	"bytes"
	"fmt"
	"io"
)

const window = 64 << 10

// backward reads the lines of a file from its end.
type backward struct {
	file  io.ReaderAt
	start int64  // offset in the file of what is in buf
	buf   []byte // read and not yet returned
}

// newBackward starts at end, which is where the last line has ended.
func newBackward(file io.ReaderAt, end int64) *backward {
	return &backward{file: file, start: end}
}

// end is the offset behind the line that prev returns next.
func (b *backward) end() int64 { return b.start + int64(len(b.buf)) }

// prev returns the line before, its newline included where it has one, and the
// offset at which it starts. The line is valid until the next call. io.EOF
// says that there are no more.
func (b *backward) prev() (line []byte, start int64, err error) {
	searched := 0 // bytes at the end of buf in which the line does not start
	for b.end() > 0 {
		body := b.buf[:len(b.buf)-searched]
		if searched == 0 {
			body = bytes.TrimSuffix(body, []byte{'\n'}) // the line's own
		}
		if i := bytes.LastIndexByte(body, '\n'); i >= 0 {
			line, b.buf = b.buf[i+1:], b.buf[:i+1]
			return line, b.end(), nil
		}
		if b.start == 0 {
			line, b.buf = b.buf, nil
			return line, 0, nil
		}
		searched = len(b.buf)
		if err := b.grow(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, io.EOF
}

// grow reads what lies before buf; twice as much each time a line is longer,
// so that a line of any length is read in linear time.
func (b *backward) grow() error {
	n := min(b.start, int64(max(window, len(b.buf))))
	buf := make([]byte, n, n+int64(len(b.buf)))
	if _, err := b.file.ReadAt(buf, b.start-n); err != nil {
		return fmt.Errorf("read %d bytes at %d: %w", n, b.start-n, err)
	}
	b.start -= n
	b.buf = append(buf, b.buf...)
	return nil
}
