package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

const statusHelp = `Show how far every consumer is, who owns it, what holds it up, and what to run
next. It reads the exporter's tables only, so it works from any machine.

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
			return p.withStore(cmd.Context(), func(s *cursor.Store) error {
				return showStatus(cmd.Context(), p, s, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func showStatus(ctx context.Context, p *process, s *cursor.Store, asJSON bool) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	reports := make([]consumerReport, len(list))
	person := false
	for i := range list {
		reports[i] = reportOf(&list[i])
		person = person || reports[i].needsPerson()
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
