package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

const removeHelp = `Remove a consumer and its position. This is the only way a position goes away:
leaving a consumer out of the configuration keeps it. Dead letters, losses and
the audit stay. A consumer that is created again under the same name begins at
its CONSUMER_<NAME>_START.`

func newRemoveCommand(p *process) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a consumer and its position",
		Long:    removeHelp,
		Example: `  exporter consumer remove analytics --reason "not used any more" --yes`,
		Args:    names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeConsumer(cmd, p, &c, args[0], func(ctx context.Context, s *cursor.Store, status cursor.Status) error {
				return removeConsumer(ctx, p, s, status, &c)
			})
		},
	}
	c.flags(cmd, p)
	c.yesFlag(cmd)
	return cmd
}

func removeConsumer(ctx context.Context, p *process, s *cursor.Store, status cursor.Status, c *change) error {
	plan := fmt.Sprintf("would remove %s with its position %s after %s accepted; %s would stay",
		status.Name, shortPosition(status.Position), plural(status.EventsAccepted, "event"), plural(status.DeadLetters, "dead letter"))
	if status.LeaseLive {
		plan += fmt.Sprintf("\nit would be refused now: %s owns it", status.Owner)
	}
	if err := c.confirm(p, plan); err != nil {
		return err
	}
	if err := s.Remove(ctx, status.Name, c.By, c.Reason); err != nil {
		return err
	}
	return say(p, "removed %s, which was at %s", status.Name, shortPosition(status.Position))
}

const renameHelp = `Rename a consumer; it keeps its position and its dead letters. Rename its
variables as well: CONSUMER_<OLD>_… to CONSUMER_<NEW>_…, and EXPORTER_CONSUMERS.`

func newRenameCommand(p *process) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:     "rename OLD NEW",
		Short:   "Rename a consumer, which keeps its position",
		Long:    renameHelp,
		Example: `  exporter consumer rename feed feed_eu --reason "second region" --yes`,
		Args:    names("OLD", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !consumerName.MatchString(args[1]) {
				return usage(fmt.Errorf("%q is not a consumer name; %s", args[1], nameForm))
			}
			return changeConsumer(cmd, p, &c, args[0], func(ctx context.Context, s *cursor.Store, status cursor.Status) error {
				return renameConsumer(ctx, p, s, status, args[1], &c)
			})
		},
	}
	c.flags(cmd, p)
	c.yesFlag(cmd)
	return cmd
}

func renameConsumer(ctx context.Context, p *process, s *cursor.Store, status cursor.Status, to string, c *change) error {
	plan := fmt.Sprintf("would rename %s to %s at position %s; its variables would have to be renamed to %s… by you",
		status.Name, to, shortPosition(status.Position), consumerPrefix(to))
	if status.LeaseLive {
		plan += fmt.Sprintf("\nit would be refused now: %s owns it", status.Owner)
	}
	if err := c.confirm(p, plan); err != nil {
		return err
	}
	if err := s.Rename(ctx, status.Name, to, c.By, c.Reason); errors.Is(err, cursor.ErrExists) {
		return usage(err)
	} else if err != nil {
		return err
	}
	return say(p, "renamed %s to %s; rename its variables to %s…", status.Name, to, consumerPrefix(to))
}
