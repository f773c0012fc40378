package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"

	"github.com/docket-exporter/exporter/internal/promserver"
)

// The alert rules, of which ruleFile is the one file.
type (
	ruleGroups struct {
		Groups []ruleGroup `yaml:"groups"`
	}
	ruleGroup struct {
		Name  string      `yaml:"name"`
		Rules []alertRule `yaml:"rules"`
	}
	alertRule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
)

func ruleFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(repository, "deploy", "prometheus", "docket-exporter.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func readRules(t *testing.T) ruleGroups {
	t.Helper()
	var groups ruleGroups
	if err := yaml.UnmarshalStrict([]byte(readText(t, ruleFile(t))), &groups); err != nil {
		t.Fatal(err)
	}
	return groups
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var rules []alertRule
	for _, g := range readRules(t).Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := promserver.Find("promtool")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusAcceptsTheRules(t *testing.T) {
	promtool(t, "check", "rules", ruleFile(t))
}

var inWords = regexp.MustCompile(`([a-z])([A-Z])`)

// runbookOf is the name of the document that belongs to an alert.
func runbookOf(alert string) string {
	return strings.ToLower(inWords.ReplaceAllString(strings.TrimPrefix(alert, "DocketExporter"), "$1-$2")) + ".md"
}

// Whoever is woken reads what is wrong, how bad it is, and what to run.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	for _, r := range alertRules(t) {
		if !strings.HasPrefix(r.Alert, "DocketExporter") {
			t.Errorf("%s: the name does not begin with DocketExporter", r.Alert)
		}
		if s := r.Labels["severity"]; len(r.Labels) != 1 || s != "page" && s != "warn" {
			t.Errorf("%s: labels %v, want only a severity, page or warn", r.Alert, r.Labels)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", r.Alert)
		}
		_, next, found := strings.Cut(r.Annotations["description"], "Next: ")
		if !found {
			t.Errorf("%s: the description names no next step", r.Alert)
		}
		if line, found := strings.CutPrefix(next, "exporter "); found {
			line = strings.ReplaceAll(line, "{{ $labels.consumer }}", "feed")
			cmd, rest, err := newRootCommand(newProcess(nil, nil, nil, nil)).Find(strings.Fields(line))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil || cmd.HasSubCommands() {
				t.Errorf("%s: exporter %s is no command: %v", r.Alert, line, err)
			}
		}
		want := "https://github.com/docket-exporter/exporter/blob/main/docs/runbooks/" + runbookOf(r.Alert)
		if got := r.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: runbook %s, want %s", r.Alert, got, want)
		}
	}
}

// Every alert has a runbook and a row in operations.md, and there is no other runbook.
func TestEveryAlertHasARunbook(t *testing.T) {
	want := map[string]bool{}
	for _, r := range alertRules(t) {
		want[runbookOf(r.Alert)] = true
	}
	operations := readText(t, filepath.Join(repository, "docs", "operations.md"))
	for _, r := range alertRules(t) {
		row := fmt.Sprintf("| [%s](runbooks/%s) | %s |", strings.TrimPrefix(r.Alert, "DocketExporter"), runbookOf(r.Alert), r.Labels["severity"])
		if !strings.Contains(operations, row) {
			t.Errorf("operations.md lacks the row %s", row)
		}
	}
	got := map[string]bool{}
	dir := filepath.Join(repository, "docs", "runbooks")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got[f.Name()] = true
		text := readText(t, filepath.Join(dir, f.Name()))
		for _, heading := range []string{"## Meaning", "## See more", "## Do", "## Do not"} {
			if !strings.Contains(text, "\n"+heading+"\n") {
				t.Errorf("%s has no heading %q", f.Name(), heading)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runbooks wanted (-) and there (+) differ:\n%s", diff)
	}
}

// metricsIn returns the names of the exporter's series in an expression.
func metricsIn(expr string) []string {
	return slices.Sorted(maps.Keys(set(`\b(docket_exporter_[a-z_]+)`, expr)))
}
