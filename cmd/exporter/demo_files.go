package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// demoFiles is the directory of one demo.
type demoFiles struct {
	dir    string
	events string // directory of the JSON-lines files
	log    string // the exporter's
}

// newDemoFiles makes a directory that no demo before has written to.
func newDemoFiles(c DemoConfig) (*demoFiles, error) {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o755); err != nil {
			return nil, usage(fmt.Errorf("make DEMO_DIR: %w", err))
		}
	}
	dir, err := os.MkdirTemp(c.Dir, "docket-exporter-demo-")
	if err != nil {
		return nil, fmt.Errorf("make directory for the demo's files: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("resolve directory of the demo's files: %w", err)
	}
	f := &demoFiles{dir: dir, events: filepath.Join(dir, "events"), log: filepath.Join(dir, "exporter.log")}
	if err := os.Mkdir(f.events, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("make directory for events: %w", err), os.RemoveAll(dir))
	}
	return f, nil
}

// close removes the files, or says where they stay: where they were asked for,
// or where they show what went wrong with the exporter.
func (f *demoFiles) close(out io.Writer, keep bool, failed error) error {
	_, err := os.Stat(f.log)
	if began := err == nil; began && (keep || failed != nil) {
		fmt.Fprintf(out, "kept: events in %s, the exporter's log in %s\n", f.events, f.log)
		return nil
	}
	if err := os.RemoveAll(f.dir); err != nil {
		return fmt.Errorf("remove the demo's files: %w", err)
	}
	if failed != nil {
		return nil
	}
	fmt.Fprintln(out, "removed everything (--keep leaves the files)")
	return nil
}
