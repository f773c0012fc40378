package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sources/docket"
)

const reconcileHelp = `Compare what a consumer has done with what its sink holds, event by event, and
name what is missing, what has another content, and what should not be there. It
needs the consumer's variables, as run does, and works beside a running exporter.

Compared are the events that the consumer has done and that its filter keeps,
from where it was created, or --from, up to its position, or --to. What cursor
set has left out is compared with --from only. Not missing are events that a
dead letter keeps or a person has given up. An event of the sink that the source
lacks is extra only where Docket cannot have deleted it. Files count under every
name that the consumer and its backfills have had. docs/reconcile.md goes through
an example.

Finished runs are also looked at in the source: their events must be numbered
from 1 without a gap, up to the checkpoint with which the run ended.

--repair sends missing events again through the consumer's sink, with the same
identity. It overwrites nothing: an event that differs is only named.

The exit code is 3 when something is missing, differs or is extra. A message
sink cannot be read: its verdict is unknown, and the exit code 1.

` + placeHelp

// comparing are the flags of reconcile.
type comparing struct {
	change
	consumer, from, to         string
	repair, identities, asJSON bool
}

func newReconcileCommand(p *process) *cobra.Command {
	var c comparing
	cmd := &cobra.Command{
		Use:   "reconcile --consumer NAME",
		Short: "Compare what a sink holds with the source",
		Long:  reconcileHelp,
		Example: `  exporter reconcile --consumer analytics
  exporter reconcile --consumer analytics --from time:2026-11-28 --json
  exporter reconcile --consumer analytics --repair --reason "rows were deleted by hand"`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(cmd); err != nil {
				return err
			}
			config, err := loadConfig(p.env)
			if err != nil {
				return err
			}
			consumer := consumerConfig(config, c.consumer)
			if consumer == nil {
				return usage(fmt.Errorf("EXPORTER_CONSUMERS does not name %s; reconcile needs its variables to know sink and filter", c.consumer))
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, db DatabaseConfig) error {
				return c.run(cmd.Context(), p, s, db, config, *consumer)
			})
		},
	}
	c.flags(cmd, p)
	return cmd
}

func (c *comparing) flags(cmd *cobra.Command, p *process) {
	cmd.Flags().StringVar(&c.consumer, "consumer", "", "which consumer (required)")
	cmd.Flags().StringVar(&c.from, "from", "", "compare events after this place; default where the consumer was created or set to")
	cmd.Flags().StringVar(&c.to, "to", "", "compare events up to this place; default the consumer's position")
	cmd.Flags().BoolVar(&c.identities, "identities", false, "compare identities only, which takes less than half of the time; a changed content is not seen")
	cmd.Flags().BoolVar(&c.repair, "repair", false, "send missing events again; wants --reason")
	cmd.Flags().StringVar(&c.Reason, "reason", "", "why it is repaired, for the audit")
	cmd.Flags().StringVar(&c.By, "by", p.person(), "who asks for it, for the audit")
	jsonFlag(cmd, &c.asJSON)
}

func (c *comparing) validate(cmd *cobra.Command) error {
	if c.consumer == "" {
		return usage(fmt.Errorf("%s wants --consumer: which consumer to compare", cmd.CommandPath()))
	}
	if c.repair {
		return c.change.validate(cmd)
	}
	return nil
}

// scans is how many transactions read the source at the same time.
const scans = 2

func (c *comparing) run(ctx context.Context, p *process, s *cursor.Store, db DatabaseConfig, config Config, consumer ConsumerConfig) error {
	status, err := consumerNamed(ctx, s, c.consumer)
	if err != nil {
		return err
	}
	if consumer.Sink != SinkFile && consumer.Sink != SinkClickHouse {
		return c.unknown(p, &consumer)
	}
	pool, err := openPool(ctx, db.Docket, scans+1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return explainConnect(db.Docket, err)
	}
	j := &reconciliation{comparing: c, p: p, store: s, docket: pool, config: config, consumer: consumer, status: status}
	return j.run(ctx)
}

// unknown answers for a sink that cannot be read.
func (c *comparing) unknown(p *process, consumer *ConsumerConfig) error {
	why := fmt.Sprintf("a %s sink cannot be read back; ask those who receive its messages", consumer.Sink)
	if c.asJSON {
		err := writeJSON(p.stdout, map[string]string{"consumer": consumer.Name, "sink": string(consumer.Sink), "verdict": verdictUnknown, "reason": why})
		return errors.Join(err, &silentError{exitFailed})
	}
	return &exitError{exitFailed, fmt.Errorf("consumer %s: unknown: %s", consumer.Name, why)}
}

// reconciliation is one comparison and all it needs.
type reconciliation struct {
	*comparing
	p        *process
	store    *cursor.Store
	docket   *pgxpool.Pool
	config   Config
	consumer ConsumerConfig
	status   cursor.Status
	names    namesUsed // of files
	judged   exporter.Ranges
	limit    int64 // what lies above it is not compared
	aboveTo  bool  // limit is that of --to, not of the position
}

func (j *reconciliation) run(ctx context.Context) (err error) {
	if err := j.span(ctx); err != nil {
		return err
	}
	if len(j.judged) == 0 {
		return j.report(nil, &reconcile.Result{}, located{}).print(j.p, j.asJSON)
	}
	if j.names, err = readNames(ctx, j.store, j.consumer.Name, j.status.UID); err != nil {
		return err
	}
	letters, err := j.store.LetterEvents(ctx, j.names.uids)
	if err != nil {
		return err
	}
	copies, err := j.openCopy(ctx) // after the position was read: what is done in it is there
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copies.Close()) }()
	job := reconcile.Comparison{
		Copy: copies, Content: !j.identities, Position: j.status.Position, Judged: j.judged, Letters: letters,
		Retention: j.config.Exporter.Retention.Value(),
	}
	if job.Horizon, err = j.horizon(ctx); err != nil {
		return err
	}
	if job.Source, err = j.source(ctx); err != nil {
		return err
	}
	for range scans {
		scan, err := j.source(ctx)
		if err != nil {
			return err
		}
		job.Scans = append(job.Scans, scan)
	}
	if j.repair {
		r := newRepairer(j, job.Source)
		defer func() { err = errors.Join(err, r.close()) }()
		job.Repair = r.repair
	}
	progress := newReconcileProgress(j.p, j.consumer.Name)
	job.Note = progress.note
	stop := progress.keep(ctx, progress.show)
	result, err := job.Run(ctx)
	stop()
	if err != nil {
		return explainDatabase(err)
	}
	places, err := j.locate(ctx, copies, job.Source, &result)
	if err != nil {
		return explainDatabase(err)
	}
	report := j.report(copies, &result, places)
	if err := j.countOutside(ctx, copies, report); err != nil {
		return err
	}
	if err := j.remarkLosses(ctx, report); err != nil {
		return err
	}
	return report.print(j.p, j.asJSON)
}

// remarkLosses says that losses are recorded within what was compared: what they
// stand for is in neither side and in no count.
func (j *reconciliation) remarkLosses(ctx context.Context, report *reconcileReport) error {
	list, err := j.store.Losses(ctx, j.consumer.Name, false)
	if err != nil {
		return err
	}
	var within, open int64
	for i := range list {
		if len(j.judged.Intersect(exporter.Ranges{list[i].IDs})) > 0 {
			if within++; list[i].AcceptedAt == nil {
				open++
			}
		}
	}
	if within > 0 {
		report.Remarks = append(report.Remarks, fmt.Sprintf("%s recorded within these ids, %d not accepted yet: `exporter cursor losses %s`",
			plural2(within, "loss is", "losses are"), open, j.consumer.Name))
	}
	return nil
}

// horizon returns the id below which events may have been pruned.
func (j *reconciliation) horizon(ctx context.Context) (int64, error) {
	retention := j.config.Exporter.Retention.Value()
	if retention == 0 {
		return 0, nil
	}
	since := time.Now().Add(reconcile.Slack(retention) - retention)
	at, err := j.place(ctx, "RETENTION_EVENTS", "time:"+since.UTC().Format(time.RFC3339))
	return at.High + 1, err
}

// source reads as the consumer's own does; it must be the known one.
func (j *reconciliation) source(ctx context.Context) (*docket.Source, error) {
	known, err := knownSource(ctx, j.store, j.consumer.Name)
	if err != nil {
		return nil, err
	}
	if known.Filters, err = filtersOf(j.consumer); err != nil {
		return nil, err
	}
	c := j.consumer
	known.Schema, known.Mark, known.Retention = j.config.Database.DocketSchema, j.status.Mark, j.config.Exporter.Retention.Value()
	known.PayloadKeys, known.NoPayload = c.Payload.Keys, !c.Payload.Full && len(c.Payload.Keys) == 0
	known.StatementTimeout = j.config.Exporter.StatementTimeout.Value()
	return docket.New(j.docket, known), nil
}
