package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments refuses arguments; an unknown command is the usual reason.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return unknownCommand(cmd, args[0])
	}
	return usage(fmt.Errorf("%s takes no arguments, got %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath()))
}

// names wants exactly the named arguments.
func names(want ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(want) {
			return nil
		}
		return usage(fmt.Errorf("%s wants %s, got %s; see %s --help",
			cmd.CommandPath(), strings.Join(want, " "), plural(int64(len(args)), "argument"), cmd.CommandPath()))
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %s %s?", cmd.CommandPath(), near)
	}
	return usage(fmt.Errorf("%s has no command %q; %s", cmd.CommandPath(), name, hint))
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}
