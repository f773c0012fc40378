package verdict

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	exporter "github.com/docket-exporter/exporter"
)

// Line is one event in a file.
type Line struct {
	exporter.Identity
	File   string // name in its directory
	Number int    // from 1
}

// Files returns the lines of a consumer's segments, finished and open, in the
// order in which they were written. Half a line at the end of an open segment
// is no line: it was never accepted. Any other line that is not an event, or
// whose idempotency key is not that of the event, is an error that names it.
func Files(dir, consumer string) ([]Line, error) {
	var paths []string
	for _, pattern := range []string{consumer + "-*.jsonl", consumer + "-*.jsonl.part"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, fmt.Errorf("list segments in %s: %w", dir, err)
		}
		paths = append(paths, found...)
	}
	slices.Sort(paths) // the time in a name is as long in all
	var lines []Line
	for _, path := range paths {
		var err error
		if lines, err = appendFile(lines, path); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

func appendFile(lines []Line, path string) ([]Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 256<<10)
	for number := 1; ; number++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(text) > 0 && filepath.Ext(path) != ".part" {
				return nil, fmt.Errorf("%s:%d: the last line of a finished segment has no end", path, number)
			}
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read segment %s: %w", path, err)
		}
		identity, err := identify(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		lines = append(lines, Line{Identity: identity, File: filepath.Base(path), Number: number})
	}
}

// identify reads whose line it is.
func identify(text []byte) (exporter.Identity, error) {
	var line struct {
		RunID   *string `json:"run_id"`
		Seq     *int64  `json:"seq"`
		EventID *int64  `json:"event_id"`
		Key     string  `json:"idempotency_key"`
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return exporter.Identity{}, fmt.Errorf("read line %.60q…: %w", bytes.TrimSpace(text), err)
	}
	if line.RunID == nil || line.Seq == nil || line.EventID == nil {
		return exporter.Identity{}, errors.New("the line lacks run_id, seq or event_id")
	}
	identity := exporter.Identity{RunID: *line.RunID, Seq: *line.Seq, EventID: *line.EventID}
	if want := identity.Key(); line.Key != want {
		return identity, fmt.Errorf("idempotency_key is %q, the event's is %s", line.Key, want)
	}
	return identity, nil
}
