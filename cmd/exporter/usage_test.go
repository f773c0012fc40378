package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestUsageErrors(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"staus"}, "did you mean exporter status?"},
		{[]string{"cursor", "lst"}, "did you mean exporter cursor list?"},
		{[]string{"help", "staus"}, "did you mean exporter status?"},
		{[]string{"help", "cursor", "nonsense"}, "exporter cursor has no command"},
		{[]string{"cursor", "show"}, "wants NAME"},
		{[]string{"cursor", "show", "a", "b"}, "got 2 arguments"},
		{[]string{"migrate", "--print-grants", "a\nb"}, "more than one line"},
		{[]string{"version", "now"}, "takes no arguments"},
		{[]string{"version", "--jsn"}, "unknown flag"},
		{[]string{"consumer", "pause", "feed"}, "wants --reason"},
		{[]string{"consumer", "rename", "feed", "Feed", "--reason", "x"}, `"Feed" is not a consumer name`},
		{[]string{"status", "--watch=x"}, `"--watch" flag: it is not a time span such as 5s or 2m; see`},
		{[]string{"status", "--watch", "5s"}, "write --watch=5s"},
		{[]string{"deadletter", "list", "--id", "x"}, `"--id" flag: it is not a whole number; see`},
		{[]string{"cursor", "accept-loss", "feed", "--loss", "99999999999999999999"}, `"--loss" flag: the number is too large; see`},
		{[]string{"status"}, "DOCKET_DATABASE_URL is not set"},
		{[]string{"migrate"}, "DOCKET_DATABASE_URL is not set"},
		{[]string{"check"}, "EXPORTER_CONSUMERS is not set"},
	} {
		r := command(t, nil, x.args...)
		if r.code != exitUsage || !strings.Contains(r.stderr, x.want) || r.stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q; want %q and code %d", x.args, r.code, r.stdout, r.stderr, x.want, exitUsage)
		}
		if strings.Count(r.stderr, "exporter: ") != 1 || !strings.HasPrefix(r.stderr, "exporter: ") {
			t.Errorf("%q: the error is not printed once: %q", x.args, r.stderr)
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"check", "--help"}, {"cursor"}, {"help"}, {"help", "consumer", "pause"}} {
		r := command(t, nil, args...)
		if r.code != exitOK || r.stdout == "" || r.stderr != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func TestVersion(t *testing.T) {
	command(t, nil, "version").want(t, exitOK, "exporter ", "go1.")
	command(t, nil, "--version").want(t, exitOK, "exporter "+readBuild().Version)
	var b Build
	r := command(t, nil, "version", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &b); err != nil || b.Go == "" || b.Version == "" {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestCompletion(t *testing.T) {
	command(t, nil, "completion", "bash").want(t, exitOK, "bash completion")
}

// Whoever reads a help text finds a line to copy.
func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Name() != "help" && c.Name() != "completion" {
				walk(c)
			}
		}
		if cmd.HasParent() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	}
	walk(newRootCommand(newProcess(nil, nil, nil, nil)))
}
