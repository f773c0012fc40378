package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// move is a consumer and the position where a person wants it.
type move struct {
	cursor.Status
	to exporter.Position
}

// done reports whether the consumer is there already, with nothing in flight.
func (m *move) done() bool { return m.to.Equal(m.Position) && m.Intent == nil }

// refuseEnded refuses a backfill that has ended: it never moves again.
func (m *move) refuseEnded() error {
	if m.Finished == nil {
		return nil
	}
	return usage(withHint(fmt.Errorf("%s is a backfill that is %s, and never moves again", m.Name, m.State()), "begin another one with `exporter backfill`"))
}

// refuseOwned refuses a consumer that a process owns.
func (m *move) refuseOwned() error {
	if !m.LeaseLive {
		return nil
	}
	return offerTakeOver(&cursor.OwnedError{Name: m.Name, Owner: m.Owner, Until: *m.LeaseUntil})
}

// plan says what the move would mean, what would be lost first.
func (m *move) plan(ctx context.Context, pool *pgxpool.Pool, db DatabaseConfig, takeOver bool) (string, error) {
	r, err := describePlace(ctx, pool, db, "", m.to)
	if err != nil {
		return "", err
	}
	lines := []string{
		m.leftOut("would be", "would never be"),
		fmt.Sprintf("would move %s from %s to %s", m.Name, shortPosition(m.Position), shortPosition(m.to)),
		m.again("would be"),
		r.toNow(),
	}
	if m.LeaseLive && !takeOver {
		lines = append(lines, fmt.Sprintf("it would be refused now: %s owns %s; stop that process, or add --take-over", m.Owner, m.Name))
	}
	return joined(append(lines, m.whole())...), nil
}

// facts say what the move meant.
func (m *move) facts() string {
	return joined(m.leftOut("are", "are never"), m.again("are"),
		fmt.Sprintf("%s is at %s; it was at %s", m.Name, shortPosition(m.to), shortPosition(m.Position)), m.whole())
}

// leftOut names the ids that the move passes over; empty when there are none.
func (m *move) leftOut(are, areNever string) string {
	skipped := m.to.Minus(m.Position)
	if len(skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("ids %s %s left out: their events %s delivered to %s", spanOf(skipped), are, areNever, m.Name)
}

// again names the ids that come once more; empty when there are none.
func (m *move) again(are string) string {
	again := m.Position.Minus(m.to)
	if len(again) == 0 {
		return ""
	}
	return fmt.Sprintf("ids %s %s read and their events delivered again, with the same identities", spanOf(again), are)
}

// whole says where a position is that was shortened; empty when none was.
func (m *move) whole() string { return wholeElsewhere(m.Position.String(), m.to.String()) }

// wholeElsewhere says where positions are whole, if one of them is shortened.
func wholeElsewhere(positions ...string) string {
	if !slices.ContainsFunc(positions, func(text string) bool { return shortened(text) != text }) {
		return ""
	}
	return "positions are shortened here; `exporter cursor show NAME|PLACE --json` has them whole"
}

// joined puts the lines that are not empty under each other.
func joined(lines ...string) string {
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), "\n")
}

// spanOf names a set of ids by its ends.
func spanOf(ids exporter.Ranges) string {
	lo, hi := ids[0].Lo, ids[len(ids)-1].Hi
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d (%d of them)", lo, hi, ids.Count())
}

// verifyRead refuses a Docket database that is not the one the positions are
// of, or not the one that these consumers have read: a place means other events
// there, and a move would hide from the next read what has happened.
func (p *process) verifyRead(ctx context.Context, s *cursor.Store, pool *pgxpool.Pool, db DatabaseConfig, consumers []cursor.Status) error {
	if err := sameSource(ctx, s, pool, db.DocketSchema); err != nil {
		return explainSource(err, db)
	}
	kept, _ := p.retention()
	for i := range consumers {
		one, err := inspect(ctx, s, pool, db, kept, &consumers[i])
		if err != nil {
			return fmt.Errorf("consumer %s: %w", consumers[i].Name, explainDatabase(err))
		}
		if err := one.refuseChanged(); err != nil {
			return err
		}
	}
	return nil
}

// verifyOthers refuses, for a consumer that has read nothing, a Docket database
// that is not the one that any of the others has read: it may be another one of the
// same server.
func (p *process) verifyOthers(ctx context.Context, s *cursor.Store, pool *pgxpool.Pool, db DatabaseConfig) error {
	list, err := liveConsumers(ctx, s, nil)
	if err != nil {
		return err
	}
	kept, _ := p.retention()
	var changed error
	for i := range list {
		if list[i].Mark == nil {
			continue
		}
		one, err := inspect(ctx, s, pool, db, kept, &list[i])
		if err != nil {
			return fmt.Errorf("consumer %s: %w", list[i].Name, explainDatabase(err))
		}
		if one.Changed == "" {
			return nil
		}
		changed = one.refuseChanged()
	}
	return changed
}

// refuseChanged refuses to move a consumer about whose source a person has to decide.
func (c *compared) refuseChanged() error {
	if !c.changed() {
		return nil
	}
	why := fmt.Errorf("the Docket database is not the one that %s has read: %s", c.Name, oneLine(c.Changed))
	if c.Changed == "" {
		why = &cursor.PausedError{Name: c.Name, Pause: *c.Paused}
	}
	return needsPerson(withHint(why, "moving it would not settle that: see `exporter source show`; "+
		"`exporter source adopt --rewind-to PLACE` goes on with the source as it is, and `exporter consumer resume` where it is the one that was read"))
}
