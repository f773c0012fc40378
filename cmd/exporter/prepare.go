package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/migrations"
	"github.com/docket-exporter/exporter/sources/docket"
)

// prepare verifies what every read relies on and makes the cursors of new
// consumers. A database that does not answer, or in which Docket has not made
// its tables yet, is waited for; anything else that is wrong ends the process,
// since going on could lose events.
func (e *engine) prepare(ctx context.Context) error {
	var backoff exporter.Backoff
	for try := 1; ; try++ {
		err := e.prepareOnce(ctx)
		e.health.setPrepared(err)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !mayPass(err) || e.once && try >= onceTries {
			return err
		}
		wait := backoff.Next()
		e.log.Warn("cannot start yet", "err", err, "in", wait)
		if !waitFor(ctx, wait) {
			return nil
		}
	}
}

// onceTries is how often run --once tries to start.
const onceTries = 3

// mayPass reports whether waiting can help. What is wrong with the
// configuration or needs a person has an exit code of its own.
func mayPass(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return exitCode(err) == exitFailed || errors.Is(err, docket.ErrNoTable) || ok && pg.Code == "25006"
}

func (e *engine) prepareOnce(ctx context.Context) error {
	if err := migrations.Check(ctx, e.export, e.config.Database.ExportSchema); err != nil {
		return explainDatabase(err)
	}
	if err := e.verifySource(ctx); err != nil {
		return err
	}
	id, err := docket.SystemIdentifier(ctx, e.docket)
	if err != nil {
		return err
	}
	if err := e.store.BindSource(ctx, e.config.Database.DocketSchema, id); err != nil {
		return err
	}
	e.system = id
	return e.createConsumers(ctx)
}

// verifySource refuses a Docket database in which the poll could lose events,
// and logs what it only warns of.
func (e *engine) verifySource(ctx context.Context) error {
	conn, err := e.docket.Acquire(ctx)
	if err != nil {
		return explainConnect(e.config.Database.Docket, err)
	}
	defer conn.Release()
	if err := docket.Verify(ctx, conn, e.config.Database.DocketSchema); errors.Is(err, docket.ErrNoTable) {
		return usage(err)
	} else if err != nil {
		return explainDatabase(err)
	}
	found, err := docket.Check(ctx, conn.Conn(), e.config.Database.DocketSchema)
	if err != nil {
		return err
	}
	var wrong []error
	for _, f := range found {
		switch f.Level {
		case docket.Fail:
			wrong = append(wrong, withHint(errors.New(f.Text), f.Hint))
		case docket.Warn:
			e.log.Warn(f.Text, "hint", f.Hint)
		}
	}
	if len(wrong) > 0 {
		return needsPerson(errors.Join(wrong...))
	}
	return nil
}

// createConsumers makes a cursor for each configured consumer that has none. A
// cursor that nobody configures may be one whose name was mistyped: a new
// history is then not started unless START asks for it.
func (e *engine) createConsumers(ctx context.Context) error {
	known, err := e.store.List(ctx)
	if err != nil {
		return err
	}
	var orphans []string
	for _, k := range known {
		if !slices.Contains(e.config.Exporter.Consumers, k.Name) && k.Kind == cursor.Live && !k.LeaseLive {
			orphans = append(orphans, k.Name)
		}
	}
	for _, c := range e.config.Consumers {
		if slices.ContainsFunc(known, func(k cursor.Status) bool { return k.Name == c.Name }) {
			continue
		}
		if len(orphans) > 0 && !c.StartGiven {
			return usage(fmt.Errorf("consumer %s is new, but there are cursors that EXPORTER_CONSUMERS does not name: %s; "+
				"correct the name, move a cursor with `exporter consumer rename`, or set %sSTART to begin a new history",
				c.Name, strings.Join(orphans, ", "), c.Prefix()))
		}
		at, err := docket.StartPosition(ctx, e.docket, e.config.Database.DocketSchema, startText(c.Start))
		if err != nil {
			return err
		}
		created, err := e.store.Create(ctx, cursor.Consumer{
			Name: c.Name, Kind: cursor.Live, Position: at, By: e.config.Exporter.Replica, Reason: "first run, start " + startText(c.Start),
		})
		if err != nil {
			return err
		}
		if created {
			e.log.Info("created the consumer", "consumer", c.Name, "at", at.High, "start", startText(c.Start))
		}
	}
	return nil
}

// startText is a START as it is written in the environment.
func startText(s Start) string {
	switch {
	case s.Latest:
		return "latest"
	case s.Position != nil:
		return s.Position.String()
	case !s.Time.IsZero():
		return s.Time.Format(time.RFC3339Nano)
	default:
		return "earliest"
	}
}

func waitFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
