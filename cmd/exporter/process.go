package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
)

// process is all that a command may touch of the process it runs in.
type process struct {
	env    map[string]string
	stdin  io.Reader
	stdout io.Writer // results
	stderr io.Writer // words
	pipes  pipes     // empty outside of tests
}

func newProcess(environ []string, stdin io.Reader, stdout, stderr io.Writer) *process {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return &process{env: env, stdin: stdin, stdout: stdout, stderr: stderr}
}

// logger writes to stderr in the configured format, or in the one that suits
// whoever reads it: text for a terminal, JSON for everything else.
func (p *process) logger(c LogConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	if c.Format == logText || c.Format == "" && isTerminal(p.stderr) {
		return slog.New(slog.NewTextHandler(p.stderr, options))
	}
	return slog.New(slog.NewJSONHandler(p.stderr, options))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
