package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

const backfillHelp = `Send a part of the history through a consumer's sink, beside the consumer: it
keeps a position and a lease of its own and never moves the consumer's. Events
have the same identities, so that a sink which drops repeats drops them.

The end is fixed at the start: --to, exclusive, or the position at which the
consumer is now, above which everything comes from the consumer itself. Ids that
are open in that position are left to it as well.

The same command again goes on where it was stopped or killed; at most the batch
in flight is sent twice. What is asked for makes the name, unless --name does.

It reads in short pages and keeps nothing open between them. Beside a running
live consumer the pages are smaller, and it rests as long as it reads. It waits
while a live consumer has been behind for longer than --max-live-lag, a replica
of Docket's database is behind by more than --max-replica-lag, or anything waits
for a lock on Docket's tables. --rate bounds the events a second; --max-live-lag
0s makes it go as fast as it can, whoever suffers.

--types, --tenants and --graphs are written as for the consumer and narrow what
it exports; --runs takes run ids in the same form.

It runs in the foreground and needs the consumer's variables, as run does; with
--detach it is only noted down, and an ` + "`exporter run`" + ` that has the consumer works
on it, one backfill at a time. Exit code 1 says that it was stopped before the
end, 3 that it was paused or cancelled and a person is needed.

` + placeHelp

// backfillFlags are what a backfill is told.
type backfillFlags struct {
	spec          backfillSpec
	name          string
	again, detach bool
	wholeRun      bool // all events of one run, which may grow
	rate          Rate
	liveLag       Duration
	replicaLag    Duration
	runs, types   string
	tenants       string
	graphs        string
	change        change
}

func newBackfillCommand(p *process) *cobra.Command {
	f := &backfillFlags{liveLag: Duration(defaultLiveLag), replicaLag: Duration(defaultReplicaLag)}
	cmd := &cobra.Command{
		Use:   "backfill",
		Short: "Send a part of the history through a consumer's sink again",
		Long:  backfillHelp,
		Example: `  exporter backfill --consumer analytics --from earliest --rate 5000/s
  exporter backfill --consumer analytics --from time:2026-11-01 --to time:2026-11-02 --types "run_*"
  exporter backfill list`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.read(cmd); err != nil {
				return err
			}
			return backfill(cmd.Context(), p, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.spec.Consumer, "consumer", "", "whose sink, payload and limits are used (required)")
	flags.StringVar(&f.spec.From, "from", "", "place of the first event (required)")
	flags.StringVar(&f.spec.To, "to", "", "place just behind the last event (default: where the consumer is now)")
	flags.StringVar(&f.runs, "runs", "", "only these runs")
	flags.StringVar(&f.types, "types", "", "only these event types")
	flags.StringVar(&f.tenants, "tenants", "", "only these tenants")
	flags.StringVar(&f.graphs, "graphs", "", "only these graphs")
	flags.StringVar(&f.name, "name", "", "name of the backfill (default: made from what is asked for)")
	flags.BoolVar(&f.again, "again", false, "begin anew when the same backfill has finished")
	flags.BoolVar(&f.detach, "detach", false, "leave it to a running exporter")
	f.paceFlags(cmd)
	f.change.flags(cmd, p)
	cmd.Flag("reason").Usage = "why, for the audit"
	cmd.AddCommand(newBackfillListCommand(p), newBackfillShowCommand(p), newBackfillPauseCommand(p), newBackfillResumeCommand(p), newBackfillCancelCommand(p))
	return cmd
}

func (f *backfillFlags) paceFlags(cmd *cobra.Command) {
	cmd.Flags().Var(&f.rate, "rate", "most events a second, as 5000/s or 5000, or 300/m for a minute (default: no limit)")
	cmd.Flags().Var(&f.liveLag, "max-live-lag", "wait while a live consumer has been behind for longer; 0s for never")
	cmd.Flags().Var(&f.replicaLag, "max-replica-lag", "wait while a replica is further behind; 0s for never")
}

// read makes the flags a spec.
func (f *backfillFlags) read(cmd *cobra.Command) error {
	if f.spec.Consumer == "" || f.spec.From == "" {
		return usage(withHint(fmt.Errorf("%s wants --consumer and --from", cmd.CommandPath()), "see "+cmd.CommandPath()+" --help"))
	}
	for _, flag := range []string{"to", "runs", "types", "tenants", "graphs", "name"} { // a shell's variable that is not set is not all of them
		if cmd.Flags().Changed(flag) && cmd.Flag(flag).Value.String() == "" {
			return usage(fmt.Errorf("--%s is empty; leave it out where it is not meant", flag))
		}
	}
	if f.name != "" && !consumerName.MatchString(f.name) {
		return usage(fmt.Errorf("--name %q is not a name; %s", f.name, nameForm))
	}
	for _, x := range []struct {
		flag, text string
		into       *[]string
	}{{"runs", f.runs, &f.spec.Runs}, {"types", f.types, &f.spec.Types}, {"tenants", f.tenants, &f.spec.Tenants}, {"graphs", f.graphs, &f.spec.Graphs}} {
		if x.text == "" {
			continue
		}
		var patterns Patterns
		if err := patterns.UnmarshalText([]byte(x.text)); err != nil {
			return usage(fmt.Errorf("--%s: %w", x.flag, err))
		}
		*x.into = patterns
	}
	for i, run := range f.spec.Runs {
		if !strings.HasPrefix(run, "=") {
			continue
		}
		if strings.HasSuffix(run, "*") {
			return usage(fmt.Errorf("--runs: %q starts with = and is open at its end; write its runs out", run))
		}
		f.spec.Runs[i] = "=" + run // this one, and not the run behind the sign
	}
	if f.change.Reason == "" {
		f.change.Reason = "backfill " + f.spec.String()
	}
	f.pace()
	return nil
}

func (f *backfillFlags) pace() {
	f.spec.Rate, f.spec.Detached = f.rate, f.detach
	f.spec.LiveLag, f.spec.ReplicaLag = f.liveLag.Value().Seconds(), f.replicaLag.Value().Seconds()
}

// backfill begins a backfill, or goes on with it, and works on it unless it is
// detached.
func backfill(ctx context.Context, p *process, f *backfillFlags) error {
	c, err := loadConfig(p.env)
	if err != nil {
		return err
	}
	of := consumerConfig(c, f.spec.Consumer)
	if of == nil {
		return usage(fmt.Errorf("--consumer %s is not in EXPORTER_CONSUMERS; its variables say where the events go", f.spec.Consumer))
	}
	if consumerConfig(c, f.name) != nil {
		return usage(fmt.Errorf("--name %s is a consumer; a backfill needs a name of its own", f.name))
	}
	if _, err := f.spec.configure(*of, f.name); err != nil {
		return err
	}
	for _, x := range unknownTypes(f.spec.Types, "--types") {
		fmt.Fprintf(p.stderr, "%s; %s\n", x.Text, x.Hint)
	}
	if !f.detach {
		if err := trySink(ctx, *of); err != nil {
			return err
		}
	}
	c.Exporter.Replica = onceName(c.Exporter.Replica)
	log := p.logger(quieter(p, c.Log))
	planner, err := newPlanner(ctx, c, log)
	if err != nil {
		return err
	}
	defer planner.close()
	b, err := planner.begin(ctx, p, f)
	if err != nil || b == nil {
		return err
	}
	if f.detach {
		return sayDetached(p, f.spec.Consumer, b)
	}
	defer limitMemory(c, p.env)()
	x, err := newBackfiller(ctx, c, b, exporter.NewMetrics(nil), log)
	if err != nil {
		return err
	}
	defer x.close()
	x.pipes, x.out = p.pipes, p.stdout
	x.owning = func(ctx context.Context, own *cursor.Cursor) error {
		return own.SetSpec(ctx, x.spec, f.change.By, f.change.Reason)
	}
	return x.inForeground(ctx, p)
}

func sayDetached(p *process, consumer string, b *cursor.BackfillStatus) error {
	if w := b.Paused; w != nil {
		return say(p, "it is paused by %s: %s; a running exporter works on it after: exporter backfill resume %s --reason TEXT", w.By, oneLine(w.Detail), b.Name)
	}
	return say(p, "a running exporter that has %s works on it; see: exporter backfill show %s", consumer, b.Name)
}
