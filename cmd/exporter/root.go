package main

import (
	"github.com/spf13/cobra"
)

const rootHelp = `exporter copies every committed event of a Docket database to files, in order
per run, without losing one. It is configured by environment variables; see
docs/configuration.md.

A first run:

  exporter check      says what is missing, and what to do about it
  exporter migrate    creates the exporter's own tables
  exporter run        exports until it is stopped
  exporter status     shows how far every consumer is`

// newRootCommand assembles the command line.
func newRootCommand(p *process) *cobra.Command {
	root := &cobra.Command{
		Use:           "exporter",
		Short:         "Export Docket events, every one, in order per run",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(withHint(err, "see "+cmd.CommandPath()+" --help"))
	})
	root.AddCommand(newCommands(p)...)
	return root
}
