package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	defaultLiveLag    = 5 * time.Second
	defaultReplicaLag = 10 * time.Second
)

// onceName tells processes apart that share EXPORTER_REPLICA with a running
// exporter, or with another backfill.
func onceName(replica string) string {
	return replica + " backfill " + strings.ToLower(rand.Text()[:6])
}

// quieter keeps what is no trouble out of the way of a progress bar, unless a
// level was asked for.
func quieter(p *process, c LogConfig) LogConfig {
	if p.env["LOG_LEVEL"] == "" {
		c.Level = LogLevel(slog.LevelWarn)
	}
	return c
}

// planner begins backfills.
type planner struct{ *engine }

// newPlanner opens both databases and verifies what every read relies on.
func newPlanner(ctx context.Context, c Config, log *slog.Logger) (*planner, error) {
	c.Consumers = nil // it creates none
	e, err := newEngine(ctx, c, true, log)
	if err != nil {
		return nil, err
	}
	if err := e.prepareOnce(ctx); err != nil {
		e.close()
		return nil, err
	}
	return &planner{e}, nil
}

// begin returns the backfill that the flags ask for, made now or begun before; its
// Spec is what is asked for now. It returns nil when that is finished already,
// which it says. One that was cancelled needs a person.
func (l *planner) begin(ctx context.Context, p *process, f *backfillFlags) (*cursor.BackfillStatus, error) {
	known, err := l.find(ctx, f)
	if err != nil {
		return nil, err
	}
	if known != nil && known.Finished == nil {
		return l.goOn(ctx, p, f, known)
	}
	if known != nil && !f.again && known.Cancelled {
		hint := "--again sends its events anew, and so does another --name"
		if f.name != "" {
			hint = "choose another --name to send its events anew"
		}
		return nil, needsPerson(withHint(cancelledError(known), hint))
	}
	if known != nil && !f.again {
		return nil, say(p, "%s has finished %s, %s sent; --again sends them again, and so does another --name",
			known.Name, stamp(known.Finished), plural(known.EventsAccepted, "event"))
	}
	if known != nil && f.name != "" {
		return nil, usage(fmt.Errorf("--name %s is a backfill that has ended; begin anew under another name, or without --name", f.name))
	}
	return l.create(ctx, p, f)
}

// find returns the backfill of that name or, without one, the newest of the
// same events that was given none either, if there is any.
func (l *planner) find(ctx context.Context, f *backfillFlags) (*cursor.BackfillStatus, error) {
	if f.name == "" {
		return l.findUnnamed(ctx, f)
	}
	if _, err := l.store.Get(ctx, f.name); errors.Is(err, cursor.ErrNotFound) {
		return nil, nil
	}
	b, err := l.store.Backfill(ctx, f.name)
	if errors.Is(err, cursor.ErrNotFound) {
		return nil, usage(fmt.Errorf("--name %s is a consumer; a backfill needs a name of its own", f.name))
	}
	if err != nil {
		return nil, err
	}
	spec, err := specOf(&b)
	if err == nil && !spec.same(&f.spec) {
		err = usage(withHint(fmt.Errorf("%s is another backfill, of %s %s", f.name, spec.Consumer, spec.String()), "choose another --name"))
	}
	return &b, err
}

// findUnnamed looks at what backfills were asked for, because a consumer may have
// been renamed since. Of a run that has grown meanwhile, what is not finished is
// the same.
func (l *planner) findUnnamed(ctx context.Context, f *backfillFlags) (newest *cursor.BackfillStatus, err error) {
	list, err := l.store.Backfills(ctx)
	if err != nil {
		return nil, err
	}
	var to string
	for i := range list {
		spec, err := specOf(&list[i])
		if err != nil {
			return nil, err
		}
		want := f.spec
		if f.wholeRun && list[i].Finished == nil {
			want.To = spec.To
		}
		if spec.same(&want) && madeName.MatchString(list[i].Name) {
			newest, to = &list[i], want.To
		}
	}
	if newest != nil {
		f.spec.To = to
	}
	return newest, nil
}

// goOn takes up a backfill that was begun before; its rate and its bounds may
// be others now, which is written down once this process owns it.
func (l *planner) goOn(ctx context.Context, p *process, f *backfillFlags, b *cursor.BackfillStatus) (*cursor.BackfillStatus, error) {
	was, err := specOf(b)
	if err != nil {
		return nil, err
	}
	spec := f.spec
	spec.Below = was.Below
	line := fmt.Sprintf("%s goes on at %s, %s done, until %s", b.Name, shortPosition(b.Position), percentOf(spec.Below, b), shortPosition(b.Until))
	switch {
	case f.detach && !reflect.DeepEqual(spec, was):
		err = l.leave(ctx, f, b.Name, &spec)
	case f.detach:
	case b.Paused != nil:
		err = pausedError(b)
	case b.LeaseLive:
		line += fmt.Sprintf(", if %s has ended", b.Owner)
	}
	if err == nil {
		b.Spec, err = json.Marshal(spec)
	}
	if err != nil {
		return nil, err
	}
	return b, say(p, "%s", line)
}

// leave writes down what a running exporter is to do, unless somebody works on
// the backfill as it is.
func (l *planner) leave(ctx context.Context, f *backfillFlags, name string, spec *backfillSpec) error {
	err := l.store.SetSpec(ctx, name, spec, f.change.By, f.change.Reason)
	if owned, ok := errors.AsType[*cursor.OwnedError](err); ok {
		return withHint(fmt.Errorf("%s is worked on by %s as it was asked for before; nothing was changed", name, owned.Owner),
			fmt.Sprintf("exporter backfill pause %s --reason TEXT, then the same command, then exporter backfill resume %s --reason TEXT", name, name))
	}
	return explainWrite(ctx, l.export, l.config.Database.Export, err)
}

func (l *planner) create(ctx context.Context, p *process, f *backfillFlags) (*cursor.BackfillStatus, error) {
	if err := l.runsExist(ctx, f.spec.Runs); err != nil {
		return nil, err
	}
	plan, err := l.plan(ctx, f)
	if err != nil {
		return nil, err
	}
	created, err := l.store.CreateBackfill(ctx, plan)
	if err != nil {
		return nil, explainWrite(ctx, l.export, l.config.Database.Export, err)
	}
	if !created {
		return nil, fmt.Errorf("another process has begun %s at this moment; run the command again to see how it goes", plan.Name)
	}
	b, err := l.store.Backfill(ctx, plan.Name)
	if err != nil {
		return nil, err
	}
	return &b, say(p, "%s begins at %s and ends at %s: %s", b.Name, shortPosition(b.Position), shortPosition(b.Until), oneLine(f.spec.String()))
}

// runsExist refuses ids of runs that are written out and have no events: a
// mistyped one would send nothing and call it done.
func (l *planner) runsExist(ctx context.Context, runs []string) error {
	for _, pattern := range runs {
		run, exact := strings.CutPrefix(pattern, "=")
		if !exact && (strings.HasPrefix(pattern, "!") || strings.HasSuffix(pattern, "*")) {
			continue
		}
		if _, err := docket.ReadRunSpan(ctx, l.docket, l.config.Database.DocketSchema, run); errors.Is(err, docket.ErrStart) {
			return usage(fmt.Errorf("--runs: %w", err))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// plan resolves the places.
func (l *planner) plan(ctx context.Context, f *backfillFlags) (cursor.Plan, error) {
	plan := cursor.Plan{Name: f.name, By: f.change.By, Reason: f.change.Reason}
	var err error
	if plan.From, err = l.place(ctx, "--from", f.spec.From); err != nil {
		return plan, err
	}
	if plan.Until, err = l.until(ctx, f); err != nil {
		return plan, err
	}
	if len(plan.Until.Minus(plan.From)) == 0 {
		return plan, usage(fmt.Errorf("there is nothing between %s (%s) and the end (%s)", f.spec.From, shortPosition(plan.From), shortPosition(plan.Until)))
	}
	_, next, err := docket.Neighbours(ctx, l.docket, l.config.Database.DocketSchema, plan.From)
	if err != nil {
		return plan, err
	}
	spec := f.spec
	if spec.Below = plan.From.High; next != nil {
		spec.Below = min(max(spec.Below, next.EventID-1), plan.Until.High)
	}
	plan.Spec = spec
	for n := 1; plan.Name == ""; n++ {
		name := spec.defaultName(n)
		if _, err := l.store.Get(ctx, name); errors.Is(err, cursor.ErrNotFound) {
			plan.Name = name
		} else if err != nil {
			return plan, err
		}
	}
	return plan, nil
}

func (l *planner) place(ctx context.Context, flag, text string) (exporter.Position, error) {
	place, err := parsePlace(text)
	if err != nil {
		return exporter.Position{}, fmt.Errorf("%s: %w", flag, err)
	}
	at, err := findPlace(ctx, l.docket, l.config.Database, place)
	if err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	return at, err
}

// until is where the backfill ends.
func (l *planner) until(ctx context.Context, f *backfillFlags) (exporter.Position, error) {
	if f.spec.To != "" {
		return l.place(ctx, "--to", f.spec.To)
	}
	status, err := l.store.Get(ctx, f.spec.Consumer)
	if errors.Is(err, cursor.ErrNotFound) {
		return exporter.Position{}, usage(withHint(fmt.Errorf("%s has no cursor yet, so that it is not known where a backfill ends", f.spec.Consumer),
			"give --to, or run the consumer first"))
	}
	return status.Position, err
}

// withBackfills adds to the configured consumers the backfills among names, as
// far as their consumers are configured: their dead letters go through the same sink.
func withBackfills(ctx context.Context, s *cursor.Store, c Config, names []string) (Config, error) {
	c.Consumers = slices.Clone(c.Consumers)
	for _, name := range names {
		if consumerConfig(c, name) != nil {
			continue
		}
		b, err := s.Backfill(ctx, name)
		if errors.Is(err, cursor.ErrNotFound) {
			continue
		}
		if err != nil {
			return c, err
		}
		spec, err := specOf(&b)
		if err != nil {
			return c, err
		}
		if of := consumerConfig(c, spec.Consumer); of != nil {
			same := *of
			same.Name, same.Of = name, of.Name
			c.Consumers = append(c.Consumers, same)
		}
	}
	return c, nil
}
