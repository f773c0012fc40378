package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

const repository = "../.."

// documents returns the text of every Markdown file by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			texts[path] = readText(t, path)
		}
	}
	if len(texts) < 10 {
		t.Fatalf("only %d documents found", len(texts))
	}
	return texts
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// set returns what a pattern, or its first group, matches in a text.
func set(pattern, text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[len(m)-1]] = true
	}
	return found
}

// The documents name metrics that exist: those of metrics.md, which holds
// everything that a process at work serves.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	listed := set("(?m)^\\| `(docket_exporter_\\w+)` \\|", readText(t, filepath.Join(repository, "docs", "metrics.md")))
	s := newSite(t)
	s.also("feed")
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE seq = 2`) // a dead letter
	c := start(t, s.env, refusedSink+" 0", "run")                                       // retries
	var served map[string]bool
	pgtest.Eventually(t, 30*time.Second, func() error {
		text, err := scraped(c.stderr.String())
		served = set(`(?m)^# TYPE (docket_exporter_\w+) `, text)
		for _, rare := range []string{"dead_letters_total", "retries_total", "loss_eta_seconds"} {
			if err == nil && !served["docket_exporter_"+rare] {
				err = fmt.Errorf("%s is not served", rare)
			}
		}
		return err
	})
	c.kill()
	for name := range served {
		if !listed[name] {
			t.Errorf("%s is served and not in metrics.md", name)
		}
	}
	for name := range set(`\b(docket_exporter_[a-z_]+)`, allText(t)) {
		if !listed[name] {
			t.Errorf("a document names %s, which is no metric", name)
		}
	}
}

// scraped reads /metrics from the address that a process has logged.
func scraped(log string) (string, error) {
	url := servedAt(log)
	if url == "" {
		return "", errors.New("no address is logged yet")
	}
	response, err := http.Get(url + "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func allText(t *testing.T) string {
	t.Helper()
	return strings.Join(slices.Collect(maps.Values(documents(t))), "\n")
}

// Documents name variables that exist. CONSUMER_<NAME>_ and the names of
// examples stand for any consumer; …_X for the end of a variable.
func TestDocumentsNameRealVariables(t *testing.T) {
	known, ends := map[string]bool{}, map[string]bool{}
	for _, name := range spellings("", append(globalVariables(), variablesOf(DemoConfig{})...)) {
		known[name] = true
	}
	for _, name := range spellings("", consumerVariables()) {
		ends[name] = true
	}
	for path, text := range documents(t) {
		text = strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(text)
		for name := range set(`\b(?:EXPORTER|DOCKET|EXPORT|RETENTION|LOG|DEMO)_[A-Z][A-Z_]*[A-Z]\b`, text) {
			if !known[name] {
				t.Errorf("%s: there is no variable %s", path, name)
			}
		}
		for end := range set(`(?:\bCONSUMER_(?:<NAME>|FEED_EU|FEED|ANALYTICS)_|…_)([A-Z][A-Z_]*[A-Z])\b`, text) {
			if !ends[end] {
				t.Errorf("%s: a consumer has no variable ending in %s", path, end)
			}
		}
	}
}

// A promise and a transition are as good as the test that is named beside it.
func TestDocumentsNameRealTests(t *testing.T) {
	real := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			maps.Copy(real, set(`(?m)^func ((?:Test|Fuzz)\w+)\(`, readText(t, path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(real, "TestMain")
	for path, text := range documents(t) {
		named := set("`((?:Test|Fuzz)[A-Z]\\w+)`", text)
		for name := range named {
			if !real[name] {
				t.Errorf("%s: there is no test %s", path, name)
			}
		}
		if base := filepath.Base(path); len(named) == 0 && (base == "guarantees.md" || base == "states.md") {
			t.Errorf("%s names no test", path)
		}
	}
}

// What is written on a line of its own as a command is one: the program's
// command with flags that it has, or a target of make.
func TestDocumentsShowRealCommands(t *testing.T) {
	targets := set(`(?m)^([a-z-]+):.*## `, readText(t, filepath.Join(repository, "Makefile")))
	for path, text := range documents(t) {
		for line := range set("(?m)^(?: {4}|)(?:bin/)?exporter ([a-z][^\n#]*)", strings.ReplaceAll(text, `"`, "")) {
			root := newRootCommand(newProcess(nil, nil, nil, nil))
			line, _, _ = strings.Cut(line, " | ") // what follows is another program
			cmd, rest, err := root.Find(strings.Fields(line))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil && cmd.HasSubCommands() && cmd.Flags().NFlag() == 0 {
				err = errors.New("a command is missing")
			}
			if err != nil {
				t.Errorf("%s: exporter %s: %v", path, line, err)
			}
		}
		for target := range set("(?m)(?:^ {4}|`|^)make ([a-z-]+)", text) {
			if !targets[target] {
				t.Errorf("%s: make has no target %s", path, target)
			}
		}
	}
}

// Links lead to files, and to headings, that exist.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	texts := documents(t)
	for path, text := range texts {
		for link := range set(`\]\(([^)\s]+)\)`, text) {
			if strings.Contains(link, "://") {
				continue
			}
			file, heading, _ := strings.Cut(link, "#")
			target := filepath.Join(filepath.Dir(path), file)
			if file == "" {
				target = path
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if heading != "" && !anchors(texts[target])[heading] {
				t.Errorf("%s: %s has no heading #%s", path, target, heading)
			}
		}
	}
}

// anchors are the headings of a document as links name them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for heading := range set(`(?m)^#+ (.+)$`, text) {
		heading = regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading), "")
		found[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return found
}
