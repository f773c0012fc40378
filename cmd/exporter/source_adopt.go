package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

const sourceAdoptHelp = `Make the source that DOCKET_DATABASE_URL leads to now the known one, and let the
consumers go on that were paused because it changed: all of them, or those that
--consumer names. Without --rewind-to each goes on where it is: a row that took
an id which counts as done is then never delivered. With it, no consumer goes
on above that place; a sink gets the rows above it, perhaps under an identity
that it has had for another event. The change is kept in the audit table.

Without --yes the command only says what it would do.`

func newSourceAdoptCommand(p *process) *cobra.Command {
	var c change
	var rewind string
	var only []string
	cmd := &cobra.Command{
		Use:     "adopt",
		Short:   "Go on with a source that changed",
		Long:    sourceAdoptHelp + "\n\n" + placeHelp,
		Example: `  exporter source adopt --rewind-to 60 --reason "restored last night's dump" --yes`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(cmd); err != nil {
				return err
			}
			return p.withSource(cmd.Context(), func(ctx context.Context, all *comparison) error {
				return all.adopt(ctx, p, rewind, only, &c)
			})
		},
	}
	c.flags(cmd, p)
	c.yesFlag(cmd)
	cmd.Flags().StringVar(&rewind, "rewind-to", "", "place above which events are delivered again")
	cmd.Flags().StringArrayVar(&only, "consumer", nil, "adopt for this consumer only; may be repeated")
	return cmd
}

func (c *comparison) adopt(ctx context.Context, p *process, rewind string, only []string, ch *change) error {
	chosen, err := c.choose(only)
	if err != nil {
		return err
	}
	if len(chosen) == 0 && !c.changed() {
		return say(p, "the source is the one that was read; nothing was changed")
	}
	var to *exporter.Position
	if rewind != "" {
		place, err := parsePlace(rewind)
		if err != nil {
			return err
		}
		at, err := findPlace(ctx, c.docket, c.db, place)
		if err != nil {
			return err
		}
		to = &at
	}
	a := cursor.Adoption{System: c.system, By: ch.By, Reason: ch.Reason}
	plan := []string{fmt.Sprintf("would make server %d the known source; it was %d", a.System, c.bound.System)}
	for _, one := range chosen {
		lines, adopter, err := c.plan(ctx, one, to)
		if err != nil {
			return err
		}
		plan, a.Consumers = append(plan, lines...), append(a.Consumers, adopter)
	}
	if err := ch.confirm(p, strings.Join(plan, "\n")); err != nil {
		return err
	}
	if err := c.store.Adopt(ctx, a); err != nil {
		return err
	}
	return c.sayAdopted(p, plan, a)
}

// choose returns the consumers that are named or, when none is, those for
// which the source changed.
func (c *comparison) choose(only []string) (chosen []*compared, err error) {
	for _, name := range only {
		if !slices.ContainsFunc(c.consumers, func(k compared) bool { return k.Name == name }) {
			return nil, usage(fmt.Errorf("there is no consumer %s", name))
		}
	}
	for i := range c.consumers {
		one := &c.consumers[i]
		if slices.Contains(only, one.Name) || len(only) == 0 && one.changed() {
			chosen = append(chosen, one)
		}
	}
	return chosen, nil
}

// plan says what adopting means for a consumer.
func (c *comparison) plan(ctx context.Context, one *compared, to *exporter.Position) ([]string, cursor.Adopter, error) {
	adopter := cursor.Adopter{Name: one.Name}
	at := one.Position
	if to != nil {
		if lower := notAbove(at, *to); !lower.Equal(at) {
			at, adopter.RewindTo = lower, &lower
		}
	}
	if at.High > one.Head {
		return nil, adopter, usage(fmt.Errorf("consumer %s would be at %d, but the source has handed out no id above %d: its next events would count as done; add --rewind-to %d or a lower place",
			one.Name, at.High, one.Head, one.Head))
	}
	lines := []string{fmt.Sprintf("would let %s go on after %s; it is at %s", one.Name, shortPosition(at), shortPosition(one.Position))}
	add := func(format string, args ...any) { lines = append(lines, "  "+fmt.Sprintf(format, args...)) }
	switch {
	case one.Changed != "":
		add("%s", oneLine(one.Changed))
	case one.changed():
		add("%s", oneLine(one.Paused.Detail))
	}
	if len(one.Gone) > 0 {
		add("ids %s were read and are no rows now: what was delivered of them may not exist in Docket any more", shortened(one.Gone.String()))
	}
	if err := c.planConflicts(ctx, one, at, add); err != nil {
		return nil, adopter, err
	}
	return lines, adopter, nil
}

// planConflicts names the rows that have ids of others: those that would come,
// and those that would not.
func (c *comparison) planConflicts(ctx context.Context, one *compared, at exporter.Position, add func(string, ...any)) error {
	var reused, missed []string
	for i := range one.Later {
		row := &one.Later[i]
		text := eventReportOf(row).String()
		if at.Contains(row.EventID) {
			missed = append(missed, text)
		} else {
			reused = append(reused, text)
		}
	}
	if again := one.Position.Minus(at); len(again) > 0 {
		add("ids %s were done and would be read again: an event that was delivered before comes again with the same identity", spanOf(again))
	}
	addRows(add, "CONFLICT: %s would be delivered under an id that was done, of which another event may have been delivered:", reused)
	addRows(add, "NEVER DELIVERED: %s took an id that counts as done:", missed)
	if len(missed) > 0 {
		if to := one.rewind(); to != nil {
			add("--rewind-to %d would deliver them", *to)
		}
	}
	letters, err := c.store.DeadLettersAbove(ctx, one.UID, at.High)
	if err != nil {
		return explainDatabase(err)
	}
	if letters > 0 {
		add("%s %s an event above %d as it was read before; look at it before a replay", plural(letters, "dead letter"), holds(letters), at.High)
	}
	return nil
}

func addRows(add func(string, ...any), format string, rows []string) {
	if len(rows) == 0 {
		return
	}
	add(format, plural(int64(len(rows)), "row"))
	for _, text := range rows[:min(len(rows), reportedRows)] {
		add("  %s", text)
	}
	if more := len(rows) - reportedRows; more > 0 {
		add("  and %d more", more)
	}
}

func holds(n int64) string {
	if n == 1 {
		return "holds"
	}
	return "hold"
}

// notAbove returns the position at which done is what is done in both.
func notAbove(p, limit exporter.Position) exporter.Position {
	high := min(p.High, limit.High)
	return exporter.Position{High: high, Holes: p.Holes.Union(limit.Holes).Minus(exporter.Ranges{{Lo: high + 1, Hi: math.MaxInt64}})}
}

func (c *comparison) sayAdopted(p *process, plan []string, a cursor.Adoption) error {
	for _, line := range plan {
		if strings.HasPrefix(line, "  ") {
			if err := say(p, "%s", line); err != nil {
				return err
			}
		}
	}
	errs := []error{say(p, "server %d is the known source", a.System)}
	for _, one := range c.consumers {
		i := slices.IndexFunc(a.Consumers, func(x cursor.Adopter) bool { return x.Name == one.Name })
		if i < 0 {
			continue
		}
		at := one.Position
		if to := a.Consumers[i].RewindTo; to != nil {
			at = *to
		}
		text := fmt.Sprintf("%s goes on after %s; it was at %s", one.Name, shortPosition(at), shortPosition(one.Position))
		if pause := one.Paused; pause != nil && pause.Reason != exporter.PausedSourceChanged {
			text += fmt.Sprintf(", and stays paused by %s: %s", pause.By, pause.Reason)
		}
		errs = append(errs, say(p, "%s", text))
	}
	return errors.Join(errs...)
}
