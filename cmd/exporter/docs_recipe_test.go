package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The recipe that deletes files which were taken keeps the newest segment, also
// where nothing was written for longer than the recipe keeps files.
func TestRecipeKeepsTheNewestSegment(t *testing.T) {
	const documented = "/var/lib/exporter"
	recipe := regexp.MustCompile(`(?m)^    (find `+documented+` .*)$`).FindAllStringSubmatch(readText(t, filepath.Join(repository, "docs", "operations.md")), -1)
	if len(recipe) == 0 {
		t.Fatal("operations.md has no recipe")
	}
	const (
		oldest  = "feed-20261101T000000.000000Z-1.jsonl"
		newest  = "feed-20261102T000000.000000Z-9.jsonl"
		open    = "feed-20261103T000000.000000Z-12.jsonl.part"
		replay  = "feed-replay-20261104T000000.000000Z-3.jsonl"
		fresh   = "feed-20261105T000000.000000Z-15.jsonl"
		another = "feed_eu-20261101T000000.000000Z-1.jsonl"
	)
	for _, idle := range []bool{true, false} {
		dir := t.TempDir()
		for _, name := range []string{oldest, newest, open, replay, fresh, another} {
			if idle && name == fresh {
				continue
			}
			path, at := filepath.Join(dir, name), time.Now()
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if name != fresh {
				at = at.AddDate(0, 0, -9)
			}
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range recipe {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line[1], documented, dir)).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", line[1], err, out)
			}
		}
		var left []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		for name, kept := range map[string]bool{oldest: false, newest: idle, open: true, replay: false, fresh: !idle, another: true} {
			if !kept && name == newest {
				continue // it may stay, or go
			}
			if slices.Contains(left, name) != kept {
				t.Errorf("idle %v: %s is kept: %v; left are %v", idle, name, !kept, left)
			}
		}
	}
}
