package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write generated documents instead of comparing them")

const configurationHead = `# Configuration

<!-- Generated from the configuration structs by
     go test ./cmd/exporter -run ConfigurationDocument -update -->

The exporter is configured by environment variables only. An empty variable
counts as not set. All mistakes are reported at once. Unknown variables are
mistakes in these cases:

- the name begins with EXPORTER_ or CONSUMER_ and nothing reads it, variables of a consumer that is not in EXPORTER_CONSUMERS among them;
- the name begins with DOCKET_, EXPORT_, RETENTION_ or LOG_ and is nearly one of those below, which is not set. Others with these beginnings belong to other programs and are left alone.

Variables that Kubernetes sets for services are ignored. Commands that need the
database variables only look at the second case only.

Durations are a number and a unit: 500ms, 20s, 15m, 12h, 7d, 7d12h. Sizes are
bytes, or a number with KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of
1024).

A variable marked *file* can also be given as a file: NAME_FILE names a file
whose content, without a trailing newline, becomes the value of NAME. Setting
both is a mistake, and so is a value in place of the path. Values of such
variables never appear in a log, a message or a metric; databases are shown as
host and name. A value that is like a connection string is not repeated either,
whatever variable it is in.

The commands ` + "`migrate`, `status`, `cursor`, `consumer`, `source`, `deadletter list`," + `
` + "`show`, `discard` and `purge`, `backfill list`, `show`, `pause`, `resume` and `cancel`" + `
need the database variables only, ` + "`monitor`" + ` those, RETENTION_EVENTS and EXPORTER_HTTP_ADDR.

`

const consumerHead = `
## Consumers

Every name in EXPORTER_CONSUMERS has its own variables, which begin with
CONSUMER_ and the name in upper case: the sink of analytics is
CONSUMER_ANALYTICS_SINK. Where names begin alike the longest one owns a
variable: CONSUMER_FEED_EU_SINK belongs to feed_eu, not to feed. Names between
which a variable would be ambiguous, such as feed and feed_file, are refused.

`

func configurationDocument() string {
	var b strings.Builder
	b.WriteString(configurationHead)
	for _, section := range []struct {
		title string
		vars  []variable
	}{
		{"Databases", variablesOf(DatabaseConfig{})},
		{"Exporter", variablesOf(ExporterConfig{})},
		{"Log", variablesOf(LogConfig{})},
	} {
		fmt.Fprintf(&b, "## %s\n\n", section.title)
		writeVariables(&b, "", section.vars)
		b.WriteString("\n")
	}
	b.WriteString(strings.TrimPrefix(consumerHead, "\n"))
	writeVariables(&b, "CONSUMER_&lt;NAME&gt;_", consumerVariables())
	return b.String()
}

func writeVariables(b *strings.Builder, prefix string, vs []variable) {
	b.WriteString("| variable | default | meaning |\n| --- | --- | --- |\n")
	for _, v := range vs {
		meaning := v.Description
		if v.Secret {
			meaning += " *file*"
		}
		if v.Example != "" {
			meaning += " Example: `" + v.Example + "`"
		}
		fmt.Fprintf(b, "| %s%s | %s | %s |\n", prefix, v.Name, defaultOf(v), meaning)
	}
}

func defaultOf(v variable) string {
	switch {
	case v.Required:
		return "**required**"
	case v.Default == "":
		return "none"
	default:
		return v.Default
	}
}

// wantDocument compares a document with what it is generated as, or writes it.
func wantDocument(t *testing.T, name, want, changed string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s. If it is meant, run this test with -update:\n%s", changed, diff)
	}
}

// The document lists every variable with its default, as the structs have it.
func TestConfigurationDocument(t *testing.T) {
	wantDocument(t, "configuration.md", configurationDocument(), "a variable changed")
}

func TestEveryVariableIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range append(globalVariables(), consumerVariables()...) {
		if v.Description == "" || !strings.HasSuffix(v.Description, ".") {
			t.Errorf("%s has no full sentence as description", v.Name)
		}
		if v.Required && v.Example == "" {
			t.Errorf("%s is required and has no example", v.Name)
		}
		if seen[v.Name] {
			t.Errorf("%s is declared twice", v.Name)
		}
		seen[v.Name] = true
	}
}
