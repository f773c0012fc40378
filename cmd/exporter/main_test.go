package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// asBinary makes the test binary behave as the exporter, for tests that need a
// process of their own.
const asBinary = "EXPORTER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) == "1" {
		_ = os.Unsetenv(asBinary) // else it would be an unknown variable
		mainWithFaults()
	}
	pgtest.Main(m)
}

// result is what a command line printed, and its exit code.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a command line in this process.
func command(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr lockedBuffer
	code := Main(t.Context(), args, environ(env), strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func environ(env map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// want fails the test unless the command ended with the code and its output
// holds every text.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	all := r.stdout + r.stderr
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("the output lacks %q", text)
		}
	}
	if t.Failed() {
		t.Fatalf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}
