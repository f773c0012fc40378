package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

// cursorImport makes and moves the consumers of a file of positions.
type cursorImport struct {
	*process
	store    *cursor.Store
	docket   *pgxpool.Pool
	db       DatabaseConfig
	file     string
	takeOver bool
	change   *change

	system int64      // identifier of Docket's server
	makes  []creation // consumers that do not exist
	moves  []move     // consumers that do
}

// creation is a consumer that does not exist yet.
type creation struct {
	name string
	at   exporter.Position
}

// run changes nothing until everything in the file is known to be in order.
func (i *cursorImport) run(ctx context.Context, in transfer) error {
	known, err := i.store.List(ctx)
	if err != nil {
		return err
	}
	var moved []cursor.Status
	for _, entry := range in.Consumers {
		for k := range known {
			if known[k].Name == entry.Consumer {
				moved = append(moved, known[k])
			}
		}
	}
	if err := i.verifyRead(ctx, i.store, i.docket, i.db, moved); err != nil {
		return err
	}
	hasNotRead := func(k cursor.Status) bool { return k.Mark == nil }
	if len(moved) < len(in.Consumers) || slices.ContainsFunc(moved, hasNotRead) {
		if err := i.verifyOthers(ctx, i.store, i.docket, i.db); err != nil {
			return err
		}
	}
	if err := i.verifyServer(ctx, in); err != nil {
		return err
	}
	for _, entry := range in.Consumers {
		if err := i.take(ctx, entry, moved); err != nil {
			return err
		}
	}
	if len(i.makes)+len(i.moves) == 0 {
		return nil
	}
	if !i.change.Yes {
		plan, err := i.plan(ctx)
		if err != nil {
			return err
		}
		return i.change.confirm(i.process, plan)
	}
	return i.apply(ctx)
}

// verifyServer refuses positions of another server.
func (i *cursorImport) verifyServer(ctx context.Context, in transfer) (err error) {
	if i.system, err = docket.SystemIdentifier(ctx, i.docket); err != nil || in.System == 0 || in.System == i.system {
		return err
	}
	return usage(withHint(
		fmt.Errorf("%s holds positions of the Docket on the server with system identifier %d, but %s leads to %d, where the ids may be those of other events",
			i.file, in.System, i.db.Docket.variable, i.system),
		`if that server holds the same events under the same ids, take "system_identifier" out of the file`))
}

// take verifies one position as a place is, and what is to be done with it.
func (i *cursorImport) take(ctx context.Context, entry transferEntry, known []cursor.Status) error {
	place, err := parsePlace(entry.Position)
	if err != nil {
		return fmt.Errorf("%s: consumer %s: %w", i.file, entry.Consumer, err)
	}
	to, err := findPlace(ctx, i.docket, i.db, place)
	if err != nil {
		return fmt.Errorf("%s: consumer %s: %w", i.file, entry.Consumer, err)
	}
	for k := range known {
		if known[k].Name != entry.Consumer {
			continue
		}
		m := move{known[k], to}
		if err := m.refuseEnded(); err != nil {
			return err
		}
		if m.done() {
			return say(i.process, "%s is at %s already; nothing to do", m.Name, shortPosition(to))
		}
		i.moves = append(i.moves, m)
		return nil
	}
	i.makes = append(i.makes, creation{entry.Consumer, to})
	return nil
}

func (i *cursorImport) plan(ctx context.Context) (string, error) {
	var parts []string
	for k := range i.moves {
		plan, err := i.moves[k].plan(ctx, i.docket, i.db, i.takeOver)
		if err != nil {
			return "", err
		}
		parts = append(parts, plan)
	}
	for _, c := range i.makes {
		r, err := describePlace(ctx, i.docket, i.db, "", c.at)
		if err != nil {
			return "", err
		}
		parts = append(parts, joined(fmt.Sprintf("would make %s at %s", c.name, shortPosition(c.at)), r.toNow(), wholeElsewhere(c.at.String())))
	}
	return strings.Join(parts, "\n"), nil
}

// apply makes and moves them. New tables belong to this Docket from now on, as
// the positions do.
func (i *cursorImport) apply(ctx context.Context) error {
	for k := range i.moves {
		if err := i.moves[k].refuseOwned(); err != nil && !i.takeOver {
			return err
		}
	}
	if err := i.store.BindSource(ctx, i.db.DocketSchema, i.system); err != nil {
		return err
	}
	for k := range i.moves {
		m := &i.moves[k]
		if err := i.store.Set(ctx, m.Name, m.to, i.takeOver, i.change.By, i.change.Reason); err != nil {
			return offerTakeOver(err)
		}
		if err := say(i.process, "%s", m.facts()); err != nil {
			return err
		}
	}
	for _, c := range i.makes {
		made, err := i.store.Create(ctx, cursor.Consumer{Name: c.name, Position: c.at, By: i.change.By, Reason: i.change.Reason})
		if err == nil && !made {
			err = fmt.Errorf("consumer %s was made by somebody else at this moment; run the command again", c.name)
		}
		if err == nil {
			err = say(i.process, "%s is at %s", c.name, shortPosition(c.at))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
