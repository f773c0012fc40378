package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/sources/docket"
)

const replayRunHelp = `Send the events of one run through a consumer's sink again, in seq order and with
the same identities. It is a backfill of that run, kept in the audit table with
its reason: the consumer goes on beside it and its position does not move, and
the same command again goes on with a replay that was interrupted.

Events that were pruned are gone. Those that the consumer's filter leaves out
are not sent. Dead letters are another matter: see exporter deadletter replay.`

func newReplayCommand(p *process) *cobra.Command {
	f := &backfillFlags{again: true, liveLag: Duration(defaultLiveLag), replicaLag: Duration(defaultReplicaLag)}
	var run string
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send one run through a consumer's sink again",
		Long:  replayRunHelp,
		Example: `  exporter replay --run order-7 --reason "lost downstream"
  exporter replay --run order-7 --consumer feed --reason "lost downstream"`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if run == "" {
				return usage(fmt.Errorf("%s wants --run: the id of the run to send again", cmd.CommandPath()))
			}
			if err := f.change.validate(cmd); err != nil {
				return err
			}
			return replayRun(cmd.Context(), p, run, f)
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "id of the run (required)")
	cmd.Flags().StringVar(&f.spec.Consumer, "consumer", "", "whose sink is used (default: the only one there is)")
	f.paceFlags(cmd)
	f.change.flags(cmd, p)
	return cmd
}

func replayRun(ctx context.Context, p *process, run string, f *backfillFlags) error {
	c, err := loadConfig(p.env)
	if err != nil {
		return err
	}
	if f.spec.Consumer == "" {
		if len(c.Consumers) != 1 {
			return usage(fmt.Errorf("EXPORTER_CONSUMERS names %d consumers; say with --consumer through whose sink run %q goes", len(c.Consumers), run))
		}
		f.spec.Consumer = c.Consumers[0].Name
	}
	err = p.withDocket(ctx, c.Database, func(ctx context.Context, pool *pgxpool.Pool) error {
		span, err := docket.ReadRunSpan(ctx, pool, c.Database.DocketSchema, run)
		if errors.Is(err, docket.ErrStart) {
			return usage(err)
		}
		f.spec.From, f.spec.To = fmt.Sprintf("id:%d", span.First), fmt.Sprintf("id:%d", span.Last+1)
		f.spec.Runs, f.wholeRun = []string{"=" + run}, true
		return explainDatabase(err)
	})
	if err != nil {
		return err
	}
	f.pace()
	return backfill(ctx, p, f)
}
