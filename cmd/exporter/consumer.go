package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

const consumerHelp = `Change a consumer. Every change wants a reason and is kept with it in the
audit table.`

func newConsumerCommand(p *process) *cobra.Command {
	cmd := group("consumer", "Pause, resume, rename or remove a consumer",
		newPauseCommand(p), newResumeCommand(p), newRenameCommand(p), newRemoveCommand(p))
	cmd.Long = consumerHelp
	return cmd
}

// change is a change that a person asks for: who, why, and whether it is meant.
type change struct {
	By, Reason string
	Yes        bool
}

func (c *change) flags(cmd *cobra.Command, p *process) {
	cmd.Flags().StringVar(&c.Reason, "reason", "", "why, for the audit (required)")
	cmd.Flags().StringVar(&c.By, "by", p.person(), "who asks for it, for the audit")
}

func (c *change) yesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.Yes, "yes", false, "do it; without it the command only says what it would do")
}

func (c *change) validate(cmd *cobra.Command) error {
	if c.Reason == "" {
		return usage(fmt.Errorf("%s wants --reason: why it is done, for the audit", cmd.CommandPath()))
	}
	return nil
}

// confirm says what would be done, and whether it is to be done.
func (c *change) confirm(p *process, plan string) error {
	if c.Yes {
		return nil
	}
	fmt.Fprintln(p.stdout, plan)
	return usage(errors.New("nothing was changed; add --yes to do it"))
}

func newPauseCommand(p *process) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Stop a consumer where it is, until it is resumed",
		Example: `  exporter consumer pause analytics --reason "warehouse upgrade"`,
		Args:    names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeConsumer(cmd, p, &c, args[0], func(ctx context.Context, s *cursor.Store, status cursor.Status) error {
				changed, err := s.Pause(ctx, args[0], c.By, c.Reason)
				if errors.Is(err, cursor.ErrFinished) {
					err = usage(err)
				}
				if err != nil {
					return err
				}
				if !changed {
					return sayPaused(ctx, p, s, args[0])
				}
				if !status.LeaseLive {
					return say(p, "%s is paused; no process runs it, and the position stays", args[0])
				}
				return say(p, "%s is paused; its owner stops within seconds and the position stays", args[0])
			})
		},
	}
	c.flags(cmd, p)
	return cmd
}

// sayPaused tells who was first.
func sayPaused(ctx context.Context, p *process, s *cursor.Store, name string) error {
	status, err := s.Get(ctx, name)
	if err != nil || status.Paused == nil { // resumed at this moment
		return err
	}
	w := status.Paused
	return say(p, "%s is already paused by %s since %s: %s: %s; nothing was changed", name, w.By, stamp(&w.At), w.Reason, oneLine(w.Detail))
}

func newResumeCommand(p *process) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Let a paused consumer go on where it stopped",
		Example: `  exporter consumer resume analytics --reason "upgrade done"`,
		Args:    names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeConsumer(cmd, p, &c, args[0], func(ctx context.Context, s *cursor.Store, status cursor.Status) error {
				if err := refuseHalted(&status); err != nil {
					return err
				}
				changed, err := s.Resume(ctx, args[0], c.By, c.Reason)
				if err != nil {
					return err
				}
				if !changed {
					return say(p, "%s is not paused, it is %s; nothing was changed", args[0], status.State())
				}
				return say(p, "%s may go on after %s", args[0], shortPosition(status.Position))
			})
		},
	}
	c.flags(cmd, p)
	return cmd
}

// changeConsumer validates the flags, finds the consumer and runs do.
func changeConsumer(cmd *cobra.Command, p *process, c *change, name string, do func(context.Context, *cursor.Store, cursor.Status) error) error {
	if err := c.validate(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	return p.withStore(ctx, func(s *cursor.Store, _ DatabaseConfig) error {
		status, err := consumerNamed(ctx, s, name)
		if err != nil {
			return err
		}
		return explainOwned(do(ctx, s, status))
	})
}

func explainOwned(err error) error {
	if _, ok := errors.AsType[*cursor.OwnedError](err); ok {
		return withHint(err, "stop that process, or take the consumer out of its EXPORTER_CONSUMERS, and try again")
	}
	return err
}

func say(p *process, format string, args ...any) error {
	_, err := fmt.Fprintf(p.stdout, format+"\n", args...)
	return err
}
