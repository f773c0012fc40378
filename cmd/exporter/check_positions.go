package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

func consumerSubject(name string) string { return "consumer " + name }

// checkPositions asks whether the positions kept are this Docket's and where
// each consumer would go on, once both databases are known to be in order.
func checkPositions(ctx context.Context, c Config, found *findings) {
	if found.exitCode() != exitOK {
		return
	}
	e, err := newEngine(ctx, c, true, slog.New(slog.DiscardHandler))
	if err != nil {
		found.failed(exportSubject, err)
		return
	}
	defer e.close()
	if err := sameSource(ctx, e.store, e.docket, c.Database.DocketSchema); err != nil {
		found.failed(exportSubject, explainSource(err, c.Database))
		return
	}
	found.ok(exportSubject, "the positions kept there are this Docket's")
	known, err := e.store.List(ctx)
	if err != nil {
		found.failed(exportSubject, explainDatabase(err))
		return
	}
	for _, consumer := range c.Consumers {
		e.checkConsumer(ctx, consumer, known, found)
	}
}

// sameSource refuses a Docket database that is not the one the exporter's
// tables belong to; those that belong to none yet are anybody's.
func sameSource(ctx context.Context, store *cursor.Store, pool *pgxpool.Pool, docketSchema string) error {
	if err := store.CheckSchema(ctx, docketSchema); err != nil { // also while Docket's database does not answer
		return err
	}
	id, err := docket.SystemIdentifier(ctx, pool)
	if err != nil {
		return err
	}
	return store.CheckSource(ctx, docketSchema, id)
}

// isChanged reports whether err says that the source is another one.
func isChanged(err error) bool {
	changed, ok := errors.AsType[*exporter.PauseError](err)
	return ok && changed.Reason == exporter.PausedSourceChanged
}

// explainSource says what a person does about an error of sameSource.
func explainSource(err error, db DatabaseConfig) error {
	if isChanged(err) {
		return withHint(err, "correct "+db.Docket.variable+" or EXPORT_SCHEMA; if Docket has moved, docs/operations.md says how to go on")
	}
	return explainDatabase(err)
}

// checkConsumer says where a consumer goes on, or where it would begin, and
// fails as run would.
func (e *engine) checkConsumer(ctx context.Context, c ConsumerConfig, known []cursor.Status, found *findings) {
	subject := consumerSubject(c.Name)
	for i := range known {
		if k := &known[i]; k.Name == c.Name {
			if err := refuseBackfill(k); err != nil {
				found.failed(subject, err)
				return
			}
			found.cursor(subject, k)
			return
		}
	}
	at, err := e.startOf(ctx, c, known)
	if err != nil {
		found.failed(subject, explainDatabase(err))
		return
	}
	if left := orphans(known, e.config.Exporter.Consumers); len(left) > 0 {
		found.add(finding{
			Level: exporter.LevelWarn, Subject: subject,
			Text: "a new history begins although there are cursors that EXPORTER_CONSUMERS does not name, because START is set: " + strings.Join(left, ", "),
			Hint: "where one of them is meant, correct the name or move its cursor with `exporter consumer rename`",
		})
	}
	text := fmt.Sprintf("NEW: it has no cursor yet and would begin at %s, after id %d", c.Start.String(), at.High)
	if n := len(at.Holes); n > 0 {
		text += fmt.Sprintf(" with %s of open ids", plural(int64(n), "range"))
	}
	found.ok(subject, text)
}

// cursor reports a consumer that exists.
func (f *findings) cursor(subject string, k *cursor.Status) {
	f.ok(subject, fmt.Sprintf("has a cursor and goes on after id %d", k.Position.High))
	if p := k.Paused; p != nil {
		f.add(finding{
			Level: exporter.LevelWarn, Subject: subject,
			Text: fmt.Sprintf("is paused by %s: %s: %s; run does not export it", p.By, p.Reason, p.Detail),
			Hint: "exporter consumer resume " + k.Name + " --reason TEXT",
		})
	}
}
