package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// watcher prints reports, one or one after the other.
type watcher struct {
	out    io.Writer
	json   bool
	place  bool // a later report takes the place of the one before
	colour bool
}

// run prints a report every so often until ctx ends.
func (w watcher) run(ctx context.Context, every time.Duration, look func() statusReport) error {
	for first := true; ; first = false {
		r := look()
		if ctx.Err() != nil {
			return nil
		}
		if err := w.again(&r, first); err != nil {
			return err
		}
		if !waitFor(ctx, every) {
			return nil
		}
	}
}

// again prints one of many reports: JSON as a line each.
func (w watcher) again(r *statusReport, first bool) error {
	if w.json {
		e := json.NewEncoder(w.out)
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %s\n\n", clock(r.At), r.summary())
	if r.Unknown != nil {
		fmt.Fprintf(&b, "%s\n", r.Unknown.Error)
	} else if err := writeStatus(&b, r, w.colour); err != nil {
		return err
	}
	text := b.Bytes()
	if w.place {
		text = inPlace(text, first)
	} else {
		text = append(text, '\n')
	}
	_, err := w.out.Write(text)
	return err
}

// show prints the only report.
func (w watcher) show(r *statusReport) error {
	if w.json {
		return writeJSON(w.out, r)
	}
	return writeStatus(w.out, r, w.colour)
}

// inPlace makes a text begin at the top of the terminal and wipes what it
// leaves of the one before, line by line, so that nothing flickers.
func inPlace(text []byte, first bool) []byte {
	const home, endOfLine, below, all = "\x1b[H", "\x1b[K\n", "\x1b[J", "\x1b[2J"
	out := []byte(home)
	if first {
		out = []byte(all + home)
	}
	out = append(out, bytes.ReplaceAll(text, []byte("\n"), []byte(endOfLine))...)
	return append(out, below...)
}
