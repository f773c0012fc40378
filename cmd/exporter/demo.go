package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/subprocess"
	"github.com/docket-exporter/exporter/internal/verdict"
)

const demoHelp = `Show the exporter at work, and check it. A private, temporary PostgreSQL gets
Docket's tables, 16 writers that imitate Docket (transactions that commit late,
roll back and burn ids), and the exporter, as a process of its own, that copies
their events to files. A reader that polls "id > last", as is often written by
hand, runs beside it.

It ends on Ctrl-C, or after DEMO_SECONDS, with a verdict read back from the
table and the files. The exit code is 1 when an event is missing, out of order
or duplicated. Everything is removed at the end; --keep leaves the files.

  DEMO_SECONDS       how long to write; until Ctrl-C when not set
  DEMO_RATE          events a second, by default 2000
  DEMO_DATABASE_URL  use this PostgreSQL (14 or newer) instead of a private one:
                     two schemas are made in it and dropped at the end
  DEMO_DIR           keep the files in a new directory below this one`

// DemoConfig is what the demo is told by the environment.
type DemoConfig struct {
	Seconds  Count       `env:"DEMO_SECONDS"`
	Rate     Count       `env:"DEMO_RATE" envDefault:"2000"`
	Database DatabaseURL `env:"DEMO_DATABASE_URL" secret:"true"`
	Dir      string      `env:"DEMO_DIR"`

	keep bool
}

const (
	demoConsumer  = "demo"
	demoCatchUp   = 30 * time.Second // for the exporter, once the writers have stopped
	demoStop      = 30 * time.Second // for the exporter to end after SIGTERM
	demoTidyUp    = 20 * time.Second // for removing what was made
	demoInterval  = time.Second      // between two lines
	demoWriterApp = "docket-exporter-demo"
)

func newDemoCommand(p *process) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Export from a private PostgreSQL to files, with a verdict",
		Long:    demoHelp,
		Example: "  DEMO_SECONDS=20 exporter demo\n  exporter demo --keep",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ps := newProblems(p.env)
			c := parse[DemoConfig](expand(p.env, variablesOf(DemoConfig{}), "", ps), "", ps)
			if err := ps.err(); err != nil {
				return err
			}
			c.Database.variable = "DEMO_DATABASE_URL"
			c.keep = keep || c.Dir != ""
			return runDemo(cmd.Context(), c, p)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the files and the exporter's log")
	return cmd
}

// demo is one demonstration.
type demo struct {
	config   DemoConfig
	out      io.Writer
	database *demoDatabase
	pool     *pgxpool.Pool
	files    *demoFiles
	exporter *demoExporter
	writer   *docketsim.Writer
	naive    *verdict.NaiveReader
	began    time.Time
}

// runDemo makes everything, demonstrates, and removes everything, also when
// something fails on the way.
func runDemo(ctx context.Context, c DemoConfig, p *process) (err error) {
	d := &demo{config: c, out: p.stdout}
	tidy := func(what func(context.Context) error) {
		// A signal has ended ctx, and tidying up comes after it.
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoTidyUp)
		defer cancel()
		err = errors.Join(err, what(work))
	}
	d.introduce()
	if d.database, err = openDemoDatabase(ctx, c); err != nil {
		return err
	}
	defer tidy(d.database.remove)
	if d.files, err = newDemoFiles(c); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.files.close(d.out, c.keep, err)) }()
	if d.pool, err = d.database.connect(ctx); err != nil {
		return err
	}
	defer d.pool.Close()
	if err := docketsim.Install(ctx, d.pool, d.database.schema); err != nil {
		return err
	}
	if d.exporter, err = startDemoExporter(ctx, d.database, d.files, p.env); err != nil {
		return err
	}
	defer tidy(func(context.Context) error { return d.exporter.process.Kill() })
	return d.show(ctx)
}

func (d *demo) introduce() {
	where := "starts a private PostgreSQL"
	if !d.config.Database.IsZero() {
		where = "uses the PostgreSQL at " + d.config.Database.String() + ", in two new schemas,"
	}
	until := "Ctrl-C ends it, and then"
	if d.config.Seconds > 0 {
		until = fmt.Sprintf("It ends after %d s, or on Ctrl-C, and then", d.config.Seconds)
	}
	fmt.Fprintf(d.out, `This demo %s and writes events to it as a busy Docket does:
16 writers, late commits, rollbacks, burned ids. The exporter, a process of its own,
copies the events to files; beside it a plain "id > last" reader polls every %v.
All of it is temporary. %s it is judged by what is in the table and in the files.

`, where, verdict.NaiveInterval, until)
}

// show demonstrates until ctx ends or the time is over, and then judges.
func (d *demo) show(ctx context.Context) error {
	d.describe()
	d.writer = docketsim.NewWriter(d.pool, d.database.schema)
	// Applications often start a run inside a longer transaction of their own.
	d.writer.SlowCommit, d.writer.SlowMin, d.writer.SlowMax = 0.3, 30*time.Millisecond, 600*time.Millisecond
	d.writer.Rate = float64(d.config.Rate)
	d.naive = &verdict.NaiveReader{Pool: d.pool, Schema: d.database.schema}
	d.began = time.Now()
	if err := d.act(ctx); err != nil {
		return d.withLog(err)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(d.out, "stopping: the writers have ended, the exporter catches up")
	}
	after := context.WithoutCancel(ctx)
	if err := d.catchUp(after); err != nil {
		return d.withLog(err)
	}
	if err := d.exporter.stop(after); err != nil {
		return d.withLog(err)
	}
	return d.judge(after)
}

// act runs the writers, the naive reader and the lines until it is time to
// stop, or until one of them or the exporter fails.
func (d *demo) act(ctx context.Context) error {
	if d.config.Seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(d.config.Seconds)*time.Second)
		defer cancel()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.writer.Run(ctx) })
	group.Go(func() error { return d.naive.Run(ctx) })
	group.Go(func() error { return d.report(ctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-d.exporter.process.Done():
			return fmt.Errorf("the exporter ended before its time: %w", orClean(d.exporter.process.Err()))
		}
	})
	return group.Wait()
}

// judge reads table and files back.
func (d *demo) judge(ctx context.Context) error {
	if err := d.naive.Finish(ctx); err != nil {
		return err
	}
	rows, err := verdict.Table(ctx, d.pool, d.database.schema, nil)
	if err != nil {
		return err
	}
	lines, err := verdict.Files(d.files.events, demoConsumer)
	if err != nil {
		return err
	}
	r := verdict.Compare(rows, lines)
	lost := d.naive.Lost(rows)
	fmt.Fprintf(d.out, "\n%s\n", r)
	fmt.Fprintf(d.out, "a plain \"id > last\" reader would have lost %d of them (%.1f %%)\n", lost, 100*float64(lost)/float64(max(1, len(rows))))
	for _, example := range r.Examples {
		fmt.Fprintln(d.out, "  "+example)
	}
	if !r.Clean() {
		return errors.New("the files do not hold what the table holds: " + r.String())
	}
	return nil
}

// withLog adds the end of the exporter's log to what failed.
func (d *demo) withLog(err error) error {
	const shown = 4000
	return fmt.Errorf("%w\nthe exporter's log ends with:\n%s", err, subprocess.Tail(d.files.log, shown))
}

func orClean(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}
