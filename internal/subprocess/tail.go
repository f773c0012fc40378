package subprocess

import (
	"fmt"
	"io"
	"os"
)

// Tail returns the last bytes of a log, at most n, from the start of a line;
// when the log cannot be read, why.
func Tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-n)
	text, err := io.ReadAll(io.NewSectionReader(f, from, n))
	if err != nil {
		return fmt.Sprintf("read %s: %v", path, err)
	}
	if from > 0 {
		for i, c := range text {
			if c == '\n' {
				return string(text[i+1:])
			}
		}
	}
	return string(text)
}
