package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

const cursorSetHelp = `Move a consumer to a place in the events: back, to have events delivered again
with the same identities, or forward, to leave events out. The batch in flight
is forgotten, and the change is kept in the audit table.

A consumer that a process owns is refused; with --take-over that process stops
at its next write and goes on from the new place. A Docket database that is not
the one that the consumer has read is refused with exit code 3, and so is a
consumer that is paused with source_changed: that is for source adopt.

` + placeHelp

func newCursorSetCommand(p *process) *cobra.Command {
	var c change
	var takeOver bool
	cmd := &cobra.Command{
		Use:     "set NAME PLACE",
		Short:   "Move a consumer to a place in the events",
		Long:    cursorSetHelp,
		Example: `  exporter cursor set analytics time:2026-11-29T10:00Z --reason "table was truncated" --yes`,
		Args:    names("NAME", "PLACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := parsePlace(args[1])
			if err != nil {
				return err
			}
			if err := c.validate(cmd); err != nil {
				return err
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, db DatabaseConfig) error {
				return p.setCursor(cmd.Context(), s, db, args[0], place, takeOver, &c)
			})
		},
	}
	c.flags(cmd, p)
	c.yesFlag(cmd)
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "also when a process owns the consumer")
	return cmd
}

// setCursor moves a consumer to a place in the Docket that it has read.
func (p *process) setCursor(ctx context.Context, s *cursor.Store, db DatabaseConfig, name string, place docket.Place, takeOver bool, c *change) error {
	status, err := consumerNamed(ctx, s, name)
	if err != nil {
		return err
	}
	m := move{Status: status}
	if err := m.refuseEnded(); err != nil {
		return err
	}
	return p.withDocket(ctx, db, func(ctx context.Context, pool *pgxpool.Pool) error {
		if err := p.verifyRead(ctx, s, pool, db, []cursor.Status{status}); err != nil {
			return err
		}
		if status.Mark == nil {
			if err := p.verifyOthers(ctx, s, pool, db); err != nil {
				return err
			}
		}
		if m.to, err = findPlace(ctx, pool, db, place); err != nil {
			return err
		}
		p.sayFuture(place)
		if m.done() {
			return say(p, "%s is at %s already; nothing to do", m.Name, shortPosition(m.to))
		}
		if !c.Yes {
			plan, err := m.plan(ctx, pool, db, takeOver)
			if err != nil {
				return err
			}
			return c.confirm(p, plan)
		}
		if err := s.Set(ctx, m.Name, m.to, takeOver, c.By, c.Reason); err != nil {
			return offerTakeOver(err)
		}
		return say(p, "%s", m.facts())
	})
}

// offerTakeOver explains why a consumer was not moved.
func offerTakeOver(err error) error {
	if errors.Is(err, cursor.ErrFinished) {
		return usage(err)
	}
	if _, owned := errors.AsType[*cursor.OwnedError](err); owned {
		return withHint(err, "stop that process, or add --take-over")
	}
	return err
}
