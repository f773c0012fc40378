package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

const cursorSetHelp = `Move a consumer to a place in the events: back, to have events delivered again
with the same identities, or forward, to leave events out. The batch in flight
is forgotten, and the change is kept in the audit table.

A consumer that a process owns is refused; with --take-over that process stops
at its next write and goes on from the new place.

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
			ctx := cmd.Context()
			return p.withStore(ctx, func(s *cursor.Store, db DatabaseConfig) error {
				status, err := consumerNamed(ctx, s, args[0])
				if err != nil {
					return err
				}
				return p.withDocket(ctx, db, func(ctx context.Context, pool *pgxpool.Pool) error {
					to, err := findPlace(ctx, pool, db, place)
					if err != nil {
						return err
					}
					p.sayFuture(place)
					return setCursor(ctx, p, s, pool, db, status, to, takeOver, &c)
				})
			})
		},
	}
	c.flags(cmd, p)
	c.yesFlag(cmd)
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "also when a process owns the consumer")
	return cmd
}

func setCursor(ctx context.Context, p *process, s *cursor.Store, pool *pgxpool.Pool, db DatabaseConfig,
	status cursor.Status, to exporter.Position, takeOver bool, c *change,
) error {
	if to.String() == status.Position.String() && status.Intent == nil && status.Finished == nil {
		return say(p, "%s is at %s already; nothing to do", status.Name, to)
	}
	plan, err := planSet(ctx, pool, db, status, to)
	if err != nil {
		return err
	}
	if status.LeaseLive && !takeOver {
		plan += fmt.Sprintf("\nit would be refused now: %s owns it; stop that process, or add --take-over", status.Owner)
	}
	if err := c.confirm(p, plan); err != nil {
		return err
	}
	if err := s.Set(ctx, status.Name, to, takeOver, c.By, c.Reason); err != nil {
		return offerTakeOver(err)
	}
	return say(p, "%s is at %s; it was at %s", status.Name, to, status.Position)
}

func offerTakeOver(err error) error {
	if _, owned := errors.AsType[*cursor.OwnedError](err); owned {
		return withHint(err, "stop that process, or add --take-over")
	}
	return err
}

// planSet says what a move means: what comes again, and what is left out.
func planSet(ctx context.Context, pool *pgxpool.Pool, db DatabaseConfig, status cursor.Status, to exporter.Position) (string, error) {
	plan := fmt.Sprintf("would move %s from %s to %s", status.Name, status.Position, to)
	r, err := describePlace(ctx, pool, db, "", to)
	if err != nil {
		return "", err
	}
	if again := status.Position.Minus(to); len(again) > 0 {
		plan += fmt.Sprintf("\nids %s would be read and their events delivered again, with the same identities", spanOf(again))
	}
	if skipped := to.Minus(status.Position); len(skipped) > 0 {
		plan += fmt.Sprintf("\nids %s would be left out: their events would never be delivered to %s", spanOf(skipped), status.Name)
	}
	return plan + fmt.Sprintf("\nfrom there to now: %s; the next by id: %s", r.events(), r.Next), nil
}

// spanOf names a set of ids by its ends.
func spanOf(ids exporter.Ranges) string {
	lo, hi := ids[0].Lo, ids[len(ids)-1].Hi
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d (%d of them)", lo, hi, ids.Count())
}
