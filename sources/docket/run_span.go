package docket

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RunSpan is where the visible events of a run lie.
type RunSpan struct {
	First, Last int64 // the lowest and the highest id
	Events      int64
}

// noText says what is wrong with an id that a database does not take as a text.
func noText(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "22021" {
		return fmt.Errorf("%w: it is no text in the encoding of the database", ErrStart)
	}
	return err
}

// ReadRunSpan looks a run up. It returns ErrStart when the run has no events.
func ReadRunSpan(ctx context.Context, pool *pgxpool.Pool, schema, run string) (RunSpan, error) {
	var s RunSpan
	events := quote(schema) + ".docket_events"
	err := pool.QueryRow(ctx, `SELECT coalesce(min(id), 0), coalesce(max(id), 0), count(*) FROM `+events+` WHERE run_id = $1::text`, run).
		Scan(&s.First, &s.Last, &s.Events)
	if err != nil {
		return s, fmt.Errorf("find run %q in %s: %w", run, events, noText(err))
	}
	if s.Events == 0 {
		return s, fmt.Errorf("%w: run %q has no events in %s; they may have been pruned, or the run is of another Docket", ErrStart, run, events)
	}
	return s, nil
}
