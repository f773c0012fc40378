package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

const statusHelp = `Show how far every consumer is, who owns it, what holds it up, and what to run
next. It works from any machine, with the database variables only.

LAG is how many events are not delivered yet, BEHIND the age of the oldest of
them; ? where Docket's database does not tell. Events that the owner's
filter leaves out are not counted.

Exit code 3 says that a consumer needs a person: it is paused, or events may be
lost.`

func newStatusCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show how far every consumer is",
		Long:    statusHelp,
		Example: "  exporter status\n  exporter status --json | jq '.[] | select(.state == \"paused\")'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd.Context(), func(s *cursor.Store, db DatabaseConfig) error {
				return showStatus(cmd.Context(), p, s, db, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func showStatus(ctx context.Context, p *process, s *cursor.Store, db DatabaseConfig, asJSON bool) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(c cursor.Status) bool { return c.Finished != nil }) // `exporter backfill list` shows them
	reports := reportsOf(list, db)
	person := slices.ContainsFunc(reports, func(r consumerReport) bool { return r.needsPerson() })
	if err := p.addLag(ctx, s, list, reports, db); err != nil {
		fmt.Fprintln(p.stderr, "the lag is unknown: "+oneLine(err.Error()))
	}
	if asJSON {
		err = writeJSON(p.stdout, reports)
	} else {
		err = printStatus(p.stdout, reports)
	}
	if err == nil && person {
		return &silentError{exitPerson}
	}
	return err
}
