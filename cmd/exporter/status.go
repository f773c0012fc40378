package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/retention"
	"github.com/docket-exporter/exporter/sources/docket"
)

const statusHelp = `Show how far every consumer is, who owns it, what holds it up, and what to run
next. It works from any machine, with the database variables only.

LAG is how many events are not delivered yet, BEHIND the age of the oldest of
them, and HEADROOM how long until Docket deletes it, which only RETENTION_EVENTS
tells; ? where something is not known. Events that the owner's filter leaves out
are not counted. HIGH is the highest id below which everything is done but the
OPEN IDS: ids that were handed out and whose transactions may still commit.
EVENTS is how many the sink has accepted so far, PROGRESS when it last did or had
nothing left to do.

Rates take two readings: --rates waits for the second one, --watch shows them
from then on. A process that runs or monitors shows the same as a page, at
EXPORTER_HTTP_ADDR, and as JSON at /status.json.

Exit code 3 says that a person is needed: a consumer is paused, by whomever,
events may be lost, the exporter's database takes no writes, or Docket's is not
the one that the positions are of. It is 0 with every other state, also with
stuck, unowned, behind and low headroom, which pass by themselves or are for the
alerts, and while Docket's database does not answer.`

func newStatusCommand(p *process) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show how far every consumer is",
		Long:    statusHelp,
		Example: "  exporter status\n  exporter status --watch\n  exporter status --json | jq '.consumers[] | select(.condition != \"healthy\")'",
		Args:    statusArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.watching = cmd.Flags().Changed("watch")
			if o.watching && o.every < minWatch {
				return usage(fmt.Errorf("--watch=%v is too often; the least is %v", o.every, minWatch))
			}
			return p.withExport(cmd.Context(), func(export *pgxpool.Pool, s *cursor.Store, db DatabaseConfig) error {
				return p.showStatus(cmd.Context(), export, s, db, o)
			})
		},
	}
	jsonFlag(cmd, &o.json)
	cmd.Flags().DurationVar(&o.every, "watch", 2*time.Second, "show it again and again, this often: --watch=5s")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	cmd.Flags().BoolVar(&o.rates, "rates", false, "read twice, so that rates are known")
	return cmd
}

// statusArguments takes none; a time span behind --watch is not its value.
func statusArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && cmd.Flags().Changed("watch") {
		if _, err := time.ParseDuration(args[0]); err == nil {
			return usage(fmt.Errorf("write --watch=%s, with the sign =", args[0]))
		}
	}
	return noArguments(cmd, args)
}

// lagTimeout bounds what a command waits for Docket's database: it is asked
// when something is wrong, and must answer with the rest then.
const lagTimeout = 5 * time.Second

// minWatch is the shortest time between two looks of --watch.
const minWatch = 200 * time.Millisecond

type statusOptions struct {
	json, rates, watching bool
	every                 time.Duration // with watching
}

func (p *process) showStatus(ctx context.Context, export *pgxpool.Pool, s *cursor.Store, db DatabaseConfig, o statusOptions) error {
	pool, err := openPool(ctx, db.Docket, 1)
	if err != nil {
		return err
	}
	defer closePools(pool)
	t, watched := p.teller(s, pool, db), watcher{out: p.stdout, json: o.json, place: !o.json && isTerminal(p.stdout)}
	t.export = export
	watched.colour = !o.json && wantsColour(p.env, isTerminal(p.stdout))
	if o.watching {
		return watched.run(ctx, o.every, func() statusReport { return p.look(ctx, t) })
	}
	r := p.look(ctx, t)
	if o.rates {
		r = ratesOf(ctx, t, r)
	}
	if r.Unknown != nil {
		return fmt.Errorf("read the state: %w", r.Unknown.err)
	}
	p.sayMissing(ctx, pool, db, &r)
	if len(r.HeldBy) > 0 {
		p.sayGuard(ctx, pool, db.DocketSchema)
	}
	if err := watched.show(&r); err != nil {
		return err
	}
	if len(r.Findings) > 0 || slices.ContainsFunc(slices.Concat(r.Consumers, r.Backfills), func(c consumerReport) bool { return c.needsPerson() }) {
		return &silentError{exitPerson}
	}
	return nil
}

// look reads both databases once.
func (p *process) look(ctx context.Context, t *teller) statusReport {
	if t.compare != nil {
		t.compare(ctx)
	}
	return t.tell(ctx)
}

// ratesOf waits for the reading after r, from which rates follow.
func ratesOf(ctx context.Context, t *teller, r statusReport) statusReport {
	later := r
	for deadline := time.Now().Add(time.Minute); later.At.Equal(r.At) && later.Unknown == nil && time.Now().Before(deadline); {
		if !waitFor(ctx, time.Second) {
			return r
		}
		later = t.tell(ctx)
	}
	return later
}

// sayMissing says why figures are missing. Another Docket than the one that the
// positions belong to explains all of them, and is shown; where no consumer
// exists yet, nothing else would show that Docket's tables are not there.
func (p *process) sayMissing(ctx context.Context, pool *pgxpool.Pool, db DatabaseConfig, r *statusReport) {
	if slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Subject == docketSubject }) {
		return
	}
	if len(r.Consumers)+len(r.Backfills) > 0 {
		sayUnknown(p.stderr, r)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	if err := docket.Verify(ctx, pool, db.DocketSchema); err != nil {
		fmt.Fprintf(p.stderr, "Docket's events cannot be read: %s\n", oneLine(err.Error()))
	}
}

// sayUnknown says once for each reason why figures are missing.
func sayUnknown(w io.Writer, r *statusReport) {
	said := map[string]bool{}
	for _, c := range slices.Concat(r.Consumers, r.Backfills) {
		if u := c.LagUnknown; u != nil && !said[u.Error] {
			said[u.Error] = true
			fmt.Fprintf(w, "the lag is unknown: %s: %s\n", c.Consumer, u.Error)
		}
	}
}

// teller is one of this command, with what its environment tells.
func (p *process) teller(s *cursor.Store, pool *pgxpool.Pool, db DatabaseConfig) *teller {
	t := &teller{db: db, process: started("status", ""), log: slog.New(slog.DiscardHandler)}
	kept, told := p.retention()
	if told {
		t.told = &retention.Policy{Events: kept.Value()}
		w := newPolicyWatch(pool, db.DocketSchema, *t.told, t.log)
		t.policy, t.compare = w.latest, w.look
	}
	configured := func(consumer string) (docket.Filters, bool) {
		f, err := p.filters(consumer)
		return f, err == nil
	}
	t.observer = newObserver(s, pool, db.DocketSchema, kept.Value(), configured, t.log)
	return t
}

// retention is what RETENTION_EVENTS tells; a command that only would use it
// does without.
func (p *process) retention() (kept Retention, told bool) {
	text := p.env["RETENTION_EVENTS"]
	if text == "" {
		return 0, false
	}
	if err := kept.UnmarshalText([]byte(text)); err != nil {
		fmt.Fprintf(p.stderr, "RETENTION_EVENTS is not used: %v\n", err)
		return 0, false
	}
	return kept, true
}

// filters are those that this environment gives a consumer, if any.
func (p *process) filters(consumer string) (docket.Filters, error) {
	ps := newProblems(p.env)
	c := loadConsumer(expand(p.env, nil, "", ps), consumer, ps)
	for _, filter := range []string{"TYPES", "TENANTS", "GRAPHS"} {
		if ps.mentions(c.Prefix() + filter) {
			return docket.Filters{}, fmt.Errorf("%s%s is not valid; see `exporter check`", c.Prefix(), filter)
		}
	}
	return filtersOf(c)
}

// wantsColour is https://no-color.org, and what TERM says.
func wantsColour(env map[string]string, terminal bool) bool {
	return terminal && env["NO_COLOR"] == "" && cmp.Or(env["TERM"], "dumb") != "dumb"
}
