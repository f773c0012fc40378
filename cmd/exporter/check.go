package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
)

const checkHelp = `Look at everything that run needs, change nothing, and print one line per
finding: ok, warn or FAIL with what to do.

Exit code 0: run can start. 1: something could not be reached. 2: the
configuration is wrong. 3: a person has to put something right in a database.
Where several things are wrong it is 2 before 3 before 1. Warnings change
nothing.`

func newCheckCommand(p *process) *cobra.Command {
	var asJSON, printDDL bool
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
			if printDDL {
				return c.printDDL(p.stdout)
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
	cmd.Flags().BoolVar(&printDDL, "print-ddl", false, "print the default table of each ClickHouse consumer, and look at nothing")
	return cmd
}

// printDDL prints the tables that the sinks would make.
func (c *Config) printDDL(w io.Writer) error {
	for _, x := range c.Consumers {
		if x.Sink == SinkClickHouse {
			if _, err := fmt.Fprintln(w, clickhouse.DDL(x.ClickHouse.Table, clickhouse.DDLOptions{})); err != nil {
				return err
			}
		}
	}
	return nil
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
	checkGuard(ctx, c, found)
	for i := range c.Consumers {
		checkTypes(&c.Consumers[i], found)
		checkSink(ctx, &c.Consumers[i], found)
	}
	return found
}

// checkedSink is a sink that can say whether deliveries would work.
type checkedSink interface {
	Check(ctx context.Context) ([]exporter.Finding, error)
}

func checkSink(ctx context.Context, c *ConsumerConfig, found *findings) {
	subject := consumerSubject(c.Name)
	fail := func(err error) {
		found.add(finding{Level: exporter.LevelFail, Subject: subject, Text: err.Error(), Hint: "see " + c.sinkVariables(), code: exitUsage})
	}
	if c.Sink == SinkFile { // opening it would take over what the owner has open
		if err := checkFile(c.File); err != nil {
			fail(err)
			return
		}
		found.ok(subject, "files can be written to "+c.File.Dir)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	s, err := openSink(ctx, *c, namesUsed{}, slog.New(slog.DiscardHandler))
	if err != nil {
		fail(err)
		return
	}
	defer s.Close()
	list, err := s.(checkedSink).Check(ctx)
	found.take(subject, list)
	if err != nil {
		found.failed(subject, err)
	}
}

// sinkTimeout bounds the look at one sink.
const sinkTimeout = 30 * time.Second

// failed records an error with the exit code it would lead to elsewhere.
func (f *findings) failed(subject string, err error) {
	text, hint := err.Error(), ""
	if h, ok := errors.AsType[*hintError](err); ok {
		hint = h.hint
		text = strings.TrimSuffix(text, "; "+hint)
	}
	f.add(finding{Level: exporter.LevelFail, Subject: subject, Text: text, Hint: hint, code: exitCode(err)})
}
