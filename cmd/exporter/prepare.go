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
// consumers. A database that does not answer or takes no writes, or in which
// Docket has not made its tables yet, is waited for, with once for a while;
// anything else that is wrong ends the process, since going on could lose events.
func (e *engine) prepare(ctx context.Context) error {
	backoff := exporter.Backoff{Max: mostPatience}
	began := time.Now()
	for {
		err := e.prepareOnce(ctx)
		e.health.setPrepared(err)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !mayPass(err) || e.once && (errors.Is(err, docket.ErrNoTable) || time.Since(began) > oncePatience) {
			return err
		}
		wait := backoff.Next()
		e.log.Warn("cannot start yet", "err", err, "in", wait)
		if !waitFor(ctx, wait) {
			return nil
		}
	}
}

// oncePatience is how long run --once waits for a database.
const oncePatience = 20 * time.Second

// mayPass reports whether waiting can help. What is wrong with the
// configuration or needs a person has an exit code of its own.
func mayPass(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return exitCode(err) == exitFailed || errors.Is(err, docket.ErrNoTable) || ok && pg.Code == "25006"
}

func (e *engine) prepareOnce(ctx context.Context) error {
	if err := e.export.Ping(ctx); err != nil {
		return explainConnect(e.config.Database.Export, err)
	}
	if err := migrations.Check(ctx, e.export, e.config.Database.ExportSchema); err != nil {
		return explainDatabase(err)
	}
	// Before Docket's tables are waited for: a mistyped schema will never have them.
	if err := e.store.CheckSchema(ctx, e.config.Database.DocketSchema); err != nil {
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
		return explainWrite(ctx, e.export, e.config.Database.Export, err)
	}
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
		case exporter.LevelFail:
			wrong = append(wrong, withHint(errors.New(f.Text), f.Hint))
		case exporter.LevelWarn:
			e.log.Warn(f.Text, "hint", f.Hint)
		}
	}
	if len(wrong) > 0 {
		return needsPerson(errors.Join(wrong...))
	}
	return nil
}

// createConsumers makes a cursor for each configured consumer that has none.
func (e *engine) createConsumers(ctx context.Context) error {
	known, err := e.store.List(ctx)
	if err != nil {
		return err
	}
	for i := range known {
		if consumerConfig(e.config, known[i].Name) != nil {
			if err := refuseBackfill(&known[i]); err != nil {
				return err
			}
		}
	}
	for _, c := range e.config.Consumers {
		if isKnown(known, c.Name) {
			continue
		}
		at, err := e.startOf(ctx, c, known)
		if err != nil {
			return err
		}
		created, err := e.store.Create(ctx, cursor.Consumer{
			Name: c.Name, Kind: cursor.Live, Position: at, By: e.config.Exporter.Replica, Reason: "first run, start " + c.Start.String(),
		})
		if err != nil {
			return explainWrite(ctx, e.export, e.config.Database.Export, err)
		}
		if created {
			e.log.Info("created the consumer", "consumer", c.Name, "at", at.High, "open_ranges", len(at.Holes), "start", c.Start.String())
		}
	}
	return nil
}

// refuseBackfill refuses a backfill's cursor, also an ended one's, to a consumer
// of that name: it has an end, and nothing would be exported behind it.
func refuseBackfill(k *cursor.Status) error {
	if k.Kind != cursor.Backfill {
		return nil
	}
	return usage(withHint(fmt.Errorf("EXPORTER_CONSUMERS names %s, which is a backfill", k.Name),
		"give the consumer a name of its own; `exporter backfill show "+k.Name+"` says what that one is"))
}

func isKnown(known []cursor.Status, name string) bool {
	return slices.ContainsFunc(known, func(k cursor.Status) bool { return k.Name == name })
}

// orphans returns the live cursors that nobody configures or owns.
func orphans(known []cursor.Status, configured []string) (names []string) {
	for _, k := range known {
		if !slices.Contains(configured, k.Name) && k.Kind == cursor.Live && !k.LeaseLive {
			names = append(names, k.Name)
		}
	}
	return names
}

// startOf returns where a consumer without a cursor starts. A cursor that
// nobody configures may be one whose name was mistyped: a new history is then
// not started unless START asks for it.
func (e *engine) startOf(ctx context.Context, c ConsumerConfig, known []cursor.Status) (exporter.Position, error) {
	left := orphans(known, e.config.Exporter.Consumers)
	if len(left) > 0 && !c.StartGiven {
		return exporter.Position{}, usage(fmt.Errorf("consumer %s is new, but there are cursors that EXPORTER_CONSUMERS does not name: %s; "+
			"correct the name, move a cursor with `exporter consumer rename`, or set %sSTART to begin a new history",
			c.Name, strings.Join(left, ", "), c.Prefix()))
	}
	at, err := docket.StartPosition(ctx, e.docket, e.config.Database.DocketSchema, c.Start.Place)
	if errors.Is(err, docket.ErrStart) {
		return at, usage(fmt.Errorf("%sSTART: %w", c.Prefix(), err))
	}
	if err == nil && len(left) > 0 {
		e.log.Warn("a new history begins although there are cursors that EXPORTER_CONSUMERS does not name, because START is set",
			"consumer", c.Name, "cursors", left)
	}
	return at, err
}

func waitFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
