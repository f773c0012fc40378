package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

const rootHelp = `exporter copies every committed event of a Docket database to ClickHouse,
Google Pub/Sub, a webhook or files, in order per run and without losing one. It
is configured by environment variables; see docs/configuration.md.

A first run:

  exporter check      says what is missing, and what to do about it
  exporter migrate    creates the exporter's own tables
  exporter run        exports until it is stopped
  exporter status     shows how far every consumer is`

// newHelpCommand is cobra's own, but for a wrong name being a wrong command line.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  exporter help consumer pause",
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			for _, name := range args {
				i := slices.IndexFunc(about.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
				if i < 0 {
					return unknownCommand(about, name)
				}
				about = about.Commands()[i]
			}
			return about.Help()
		},
	}
}

// plainFlag says of a number or time span that is none what it is, and not which function
// found it.
func plainFlag(err error) error {
	if before, _, found := strings.Cut(err.Error(), "time: "); found && strings.HasSuffix(before, "flag: ") {
		return errors.New(before + "it is not a time span such as 5s or 2m")
	}
	number, ok := errors.AsType[*strconv.NumError](err)
	if !ok || number.Func != "ParseInt" {
		return err
	}
	what := "it is not a whole number"
	if errors.Is(err, strconv.ErrRange) {
		what = "the number is too large"
	}
	return errors.New(strings.TrimSuffix(err.Error(), number.Error()) + what)
}

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
		return usage(withHint(plainFlag(err), "see "+cmd.CommandPath()+" --help"))
	})
	root.Version = readBuild().Version
	root.SetVersionTemplate("exporter {{.Version}}\n")
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(newCommands(p)...)
	return root
}
