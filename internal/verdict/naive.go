package verdict

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NaiveReader follows the table as many programs do: by the highest id it has
// seen. It is here to be wrong.
type NaiveReader struct {
	Pool   *pgxpool.Pool
	Schema string // of Docket's tables

	last int64
	got  []int64 // ascending
}

// NaiveInterval is the time between two polls of a NaiveReader.
const NaiveInterval = 20 * time.Millisecond

const naiveLimit = 1000

// Run polls until ctx ends.
func (r *NaiveReader) Run(ctx context.Context) error {
	tick := time.NewTicker(NaiveInterval)
	defer tick.Stop()
	for {
		more, err := r.poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Finish reads what is left once the writers have stopped.
func (r *NaiveReader) Finish(ctx context.Context) error {
	for {
		if more, err := r.poll(ctx); err != nil || !more {
			return err
		}
	}
}

// poll reads one page; more says that there may be another one.
func (r *NaiveReader) poll(ctx context.Context) (more bool, err error) {
	rows, err := r.Pool.Query(ctx, "SELECT id FROM "+pgx.Identifier{r.Schema, "docket_events"}.Sanitize()+
		" WHERE id > $1 ORDER BY id LIMIT $2", r.last, naiveLimit)
	if err == nil {
		var ids []int64
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err == nil && len(ids) > 0 {
			r.got = append(r.got, ids...)
			r.last = ids[len(ids)-1]
			more = len(ids) == naiveLimit
		}
	}
	if err != nil {
		return false, fmt.Errorf("read by id > last: %w", err)
	}
	return more, nil
}

// Lost counts the rows, which are in the order of their ids, that it never got.
func (r *NaiveReader) Lost(rows []Row) int {
	lost, got := 0, r.got
	for _, row := range rows {
		for len(got) > 0 && got[0] < row.EventID {
			got = got[1:]
		}
		if len(got) == 0 || got[0] != row.EventID {
			lost++
		}
	}
	return lost
}
