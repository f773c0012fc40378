package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every row of the failure table names a test that shows it. That the tests
// exist is checked for all documents.
func TestFailureTableNamesTests(t *testing.T) {
	rows := 0
	for line := range strings.Lines(readText(t, filepath.Join(repository, "docs", "failure-table.md"))) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what fails") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		if len(cells) != 5 {
			t.Errorf("%d cells, want 5: %s", len(cells), line)
		} else if len(set("`(Test\\w+)`", cells[4])) == 0 {
			t.Errorf("no test shows: %s", line)
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows", rows)
	}
}
