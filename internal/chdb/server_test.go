package chdb_test

import (
	"os"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/chdb"
)

func TestDataOutlivesAKill(t *testing.T) {
	s, err := chdb.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, statement := range []string{"CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n", "INSERT INTO kept VALUES (1)"} {
		if _, err := s.Query(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum, err := s.Query(t.Context(), "SELECT sum(n) FROM kept"); err != nil || sum != "1\n" {
		t.Errorf("sum %q, %v: want the row that was there before the kill", sum, err)
	}
	if _, err := s.Query(t.Context(), "SELECT * FROM nowhere"); err == nil || !strings.Contains(err.Error(), "Code: 60.") {
		t.Errorf("a table that is not there: %v, want code 60", err)
	}
}

func TestMissingLibrarySaysWhatToDo(t *testing.T) {
	t.Setenv("CHDB_LIB", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := chdb.FindLibrary(); err == nil || !strings.Contains(err.Error(), "tools/setup.sh chdb") {
		t.Errorf("got %v, want the command to run", err)
	}
	t.Setenv("CHDB_LIB", "/nowhere/libchdb.so")
	if _, err := chdb.FindLibrary(); err == nil || !strings.Contains(err.Error(), "CHDB_LIB") {
		t.Errorf("got %v, want the variable's name", err)
	}
}

func TestSetupFetchesThisVersion(t *testing.T) {
	script, err := os.ReadFile("../../tools/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "chdb_version="+chdb.Version) {
		t.Errorf("tools/setup.sh does not fetch version %s", chdb.Version)
	}
}
