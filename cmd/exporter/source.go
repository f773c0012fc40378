package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

const sourceHelp = `Compare Docket's database with what the consumers have read, and go on after it
was restored, replaced, upgraded or promoted. A consumer pauses with the reason
source_changed when its source is not what it was; docs/operations.md goes
through a restore and a failover.`

func newSourceCommand(p *process) *cobra.Command {
	cmd := group("source", "Compare the source with what was read, and adopt one that changed",
		newSourceShowCommand(p), newSourceAdoptCommand(p))
	cmd.Long = sourceHelp
	return cmd
}

const sourceShowHelp = `Show which source the positions belong to, which one DOCKET_DATABASE_URL leads
to now and, for each consumer, whether it is the one that was read: by the
server's system identifier, timeline and write-ahead log, the oids of
docket_events and its sequence, the sequence's value, and the last row read. Of
the last 10,000 ids below a position it says which were read and are no rows
now, and which are rows that cannot have been read.

The exit code is 3 when the source is not the known one for some consumer.`

func newSourceShowCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Compare Docket's database with what was read",
		Long:    sourceShowHelp,
		Example: "  exporter source show",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withSource(cmd.Context(), func(ctx context.Context, c *comparison) error {
				return c.show(p.stdout, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// comparison is the source as each consumer sees it.
type comparison struct {
	db        DatabaseConfig
	store     *cursor.Store
	docket    *pgxpool.Pool
	bound     cursor.Bound
	system    int64 // identifier of the server that is there now
	consumers []compared
}

// compared is a consumer and what it would find.
type compared struct {
	cursor.Status
	docket.Inspection
}

// changed reports whether a person has to decide about the consumer.
func (c *compared) changed() bool {
	return c.Changed != "" || c.Paused != nil && c.Paused.Reason == exporter.PausedSourceChanged
}

// withSource compares the source for all consumers.
func (p *process) withSource(ctx context.Context, do func(context.Context, *comparison) error) error {
	settings, watch, _, err := loadMonitor(p.env)
	if err != nil {
		return err
	}
	return p.withStore(ctx, func(s *cursor.Store, db DatabaseConfig) error {
		return p.withDocket(ctx, settings, func(ctx context.Context, pool *pgxpool.Pool) error {
			c, err := compare(ctx, s, pool, db, watch.Retention)
			if err != nil {
				return err
			}
			return do(ctx, c)
		})
	})
}

func compare(ctx context.Context, s *cursor.Store, pool *pgxpool.Pool, db DatabaseConfig, retention Retention) (*comparison, error) {
	c := &comparison{db: db, store: s, docket: pool}
	bound, err := s.Source(ctx)
	if err != nil {
		return nil, explainDatabase(err)
	}
	if bound == nil {
		return nil, usage(fmt.Errorf("no source is known yet: `exporter run` takes the first one it reads"))
	}
	c.bound = *bound
	if c.system, err = docket.SystemIdentifier(ctx, pool); err != nil {
		return nil, explainDatabase(err)
	}
	list, err := s.List(ctx)
	if err != nil {
		return nil, explainDatabase(err)
	}
	for i := range list {
		if list[i].Finished != nil {
			continue // a backfill that reads nothing any more
		}
		one, err := inspect(ctx, s, pool, db, retention, &list[i])
		if err != nil {
			return nil, fmt.Errorf("consumer %s: %w", list[i].Name, explainDatabase(err))
		}
		c.consumers = append(c.consumers, one)
	}
	return c, nil
}

func inspect(ctx context.Context, s *cursor.Store, pool *pgxpool.Pool, db DatabaseConfig, retention Retention, status *cursor.Status) (compared, error) {
	known, err := knownSource(ctx, s, status.Name)
	if err != nil {
		return compared{}, err
	}
	_, dead, err := s.SeenBy(ctx, status.Name)
	if err != nil {
		return compared{}, err
	}
	known.Schema, known.Mark, known.Retention = db.DocketSchema, status.Mark, retention.Value()
	since := status.CreatedAt
	if status.Mark != nil {
		since = status.Mark.InsertedAt
	}
	if status.ReadAt != nil && status.ReadAt.After(since) {
		since = *status.ReadAt
	}
	in, err := docket.New(pool, known).Inspect(ctx, status.Position, dead, since)
	return compared{*status, in}, err
}

// show prints the comparison; a source that changed is an exit code of its own.
func (c *comparison) show(w io.Writer, asJSON bool) error {
	report := c.report()
	if asJSON {
		if err := writeJSON(w, report); err != nil {
			return err
		}
	} else if err := report.print(w); err != nil {
		return err
	}
	if c.changed() {
		return &silentError{exitPerson}
	}
	return nil
}

// changed reports whether a person has to decide: about a consumer, or because
// none can be made on another server.
func (c *comparison) changed() bool {
	return c.system != c.bound.System || slices.ContainsFunc(c.consumers, func(k compared) bool { return k.changed() })
}
