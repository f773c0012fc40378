package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

const checkHelp = `Look at everything that run needs, change nothing, and print one line per
finding: ok, warn or FAIL with what to do.

Exit code 0: run can start. 1: something could not be reached. 2: the
configuration is wrong. 3: a person has to put something right in a database.
Where several things are wrong it is 2 before 3 before 1. Warnings change
nothing.`

func newCheckCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Say whether run can start, and what is missing",
		Long:    checkHelp,
		Example: "  exporter check\n  exporter check --json | jq '.[] | select(.level != \"ok\")'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(p.env)
			if err != nil {
				return err
			}
			found := check(cmd.Context(), c)
			if err := found.print(p.stdout, asJSON); err != nil {
				return err
			}
			if code := found.exitCode(); code != exitOK {
				return &silentError{code}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// check looks at everything in the order in which it is needed, and goes on
// after a failure so that one run shows all of them.
func check(ctx context.Context, c Config) *findings {
	found := &findings{}
	found.ok("configuration", "consumers: "+strings.Join(c.Exporter.Consumers, ", "))
	checkDocket(ctx, c, found)
	checkExport(ctx, c.Database, found)
	checkPositions(ctx, c, found)
	checkDirect(ctx, c.Database, found)
	for i := range c.Consumers {
		checkTypes(&c.Consumers[i], found)
		checkSink(&c.Consumers[i], found)
	}
	return found
}

func checkSink(c *ConsumerConfig, found *findings) {
	subject := consumerSubject(c.Name)
	switch c.Sink {
	case SinkFile:
		if err := checkFile(c.File); err != nil {
			found.add(finding{Level: levelFail, Subject: subject, Text: err.Error(), Hint: "see " + c.Prefix() + "FILE_DIR", code: exitUsage})
			return
		}
		found.ok(subject, "files can be written to "+c.File.Dir)
	}
}

// failed records an error with the exit code it would lead to elsewhere.
func (f *findings) failed(subject string, err error) {
	text, hint := err.Error(), ""
	if h, ok := errors.AsType[*hintError](err); ok {
		hint = h.hint
		text = strings.TrimSuffix(text, "; "+hint)
	}
	f.add(finding{Level: levelFail, Subject: subject, Text: text, Hint: hint, code: exitCode(err)})
}
