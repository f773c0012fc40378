package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	exporter "github.com/docket-exporter/exporter"
)

func TestMemoryLimit(t *testing.T) {
	file := func(text string) []string {
		path := filepath.Join(t.TempDir(), "memory.max")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{filepath.Join(t.TempDir(), "missing"), path}
	}
	six := Config{Consumers: make([]ConsumerConfig, 6)}
	told := six
	told.Exporter.Memory = 64 << 20
	for name, x := range map[string]struct {
		config Config
		env    map[string]string
		files  []string
		want   int64
	}{
		"told":                   {told, map[string]string{"GOMEMLIMIT": "1GiB"}, file("1000000"), 64 << 20},
		"told to Go":             {six, map[string]string{"GOMEMLIMIT": "1GiB"}, file("1000000"), 0},
		"by number of consumers": {six, nil, nil, 168 << 20},
		"a large container":      {six, nil, file("4294967296\n"), 168 << 20},
		"a small container":      {six, nil, file("200000000\n"), 120_000_000},
		"a container without":    {six, nil, file("max\n"), 168 << 20},
		"an old control group":   {six, nil, file("9223372036854771712\n"), 168 << 20},
	} {
		if got := memoryLimit(x.config, x.env, x.files); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}

// The limit holds while batches are delivered.
func TestRunLimitsItsMemory(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_MEMORY"] = "123MiB"
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	s.insert("r", 1)
	var during int64
	before := debug.SetMemoryLimit(-1)
	p := newProcess(environ(s.env), nil, &lockedBuffer{}, &lockedBuffer{})
	p.pipes.sink = func(next exporter.Sink) exporter.Sink {
		return sinkFunc(func(ctx context.Context, b exporter.Batch) error {
			during = debug.SetMemoryLimit(-1)
			return next.Deliver(ctx, b)
		})
	}
	if code := p.execute(t.Context(), []string{"run", "--once"}); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, p.stderr)
	}
	if after := debug.SetMemoryLimit(-1); during != 123<<20 || after != before {
		t.Errorf("the limit was %d before, %d during and %d after", before, during, after)
	}
}

type sinkFunc func(context.Context, exporter.Batch) error

func (f sinkFunc) Deliver(ctx context.Context, b exporter.Batch) error { return f(ctx, b) }
