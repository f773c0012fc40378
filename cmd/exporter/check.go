package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/sources/docket"
)

const checkHelp = `Look at everything that run needs, change nothing, and print one line per
finding: ok, warn or FAIL with what to do.

Exit code 0: run can start. 1: something could not be reached. 2: the
configuration is wrong. 3: a person has to put something right in a database.`

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
	checkBinding(ctx, c, found)
	checkDirect(ctx, c.Database, found)
	for i := range c.Consumers {
		checkSink(&c.Consumers[i], found)
	}
	return found
}

// checkBinding asks whether the positions kept are this Docket's, once both
// databases are known to be in order.
func checkBinding(ctx context.Context, c Config, found *findings) {
	if found.exitCode() != exitOK {
		return
	}
	e, err := newEngine(ctx, c, true, slog.New(slog.DiscardHandler))
	if err == nil {
		defer e.close()
		var id int64
		if id, err = docket.SystemIdentifier(ctx, e.docket); err == nil {
			err = e.store.CheckSource(ctx, c.Database.DocketSchema, id)
		}
	}
	if err != nil {
		found.failed(exportSubject, err)
		return
	}
	found.ok(exportSubject, "the positions kept there are this Docket's")
}

// checkDirect reaches for the databases past their poolers, where they differ.
func checkDirect(ctx context.Context, db DatabaseConfig, found *findings) {
	for _, d := range []struct {
		subject     string
		url, pooled DatabaseURL
	}{
		{"DOCKET_DIRECT_URL", db.DocketDirect, db.Docket},
		{"EXPORT_DIRECT_URL", db.ExportDirect, db.Export},
	} {
		if d.url == d.pooled {
			continue
		}
		conn, err := connect(ctx, d.url)
		if err != nil {
			found.failed(d.subject, err)
			continue
		}
		conn.Close(context.WithoutCancel(ctx))
		found.ok(d.subject, "reached "+d.url.String())
	}
}

func checkSink(c *ConsumerConfig, found *findings) {
	subject := "consumer " + c.Name
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
