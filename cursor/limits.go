package cursor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// MaxHeld is how many events of a consumer may be held behind dead letters
// before it pauses.
const MaxHeld = 10_000

// LimitDeadLetters makes the consumer pause, with nothing skipped, instead of
// writing more than perHour dead letters in an hour; 0 is no limit. Expired and
// held events do not count. After a person has resumed it the count begins anew,
// and the first batch is let through whatever it holds.
func (c *Cursor) LimitDeadLetters(perHour int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lettersPerHour = perHour
}

// checkRate counts in the database, so that neither a restart nor another
// owner begins anew.
func (c *Cursor) checkRate(ctx context.Context, tx pgx.Tx, letters []exporter.DeadLetter) error {
	first, n := -1, 0
	for i := range letters {
		if l := &letters[i]; l.Class != exporter.ClassExpired && l.Class != exporter.ClassHeld {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n == 0 || c.lettersPerHour == 0 {
		return nil
	}
	var before int
	var resumed bool
	var name string
	if err := tx.QueryRow(ctx, c.store.sql(countRecent), c.uid).Scan(&before, &resumed, &name); err != nil {
		return fmt.Errorf("count dead letters: %w", err)
	}
	if before+n <= c.lettersPerHour || before == 0 && resumed {
		return nil
	}
	return &exporter.PauseError{Reason: exporter.PausedDeadLetters, Detail: fmt.Sprintf(
		"%d dead letters within an hour, %d of them of the batch in flight, are more than CONSUMER_%s_MAX_DEAD_LETTERS=%d; the next one is %s: %s; nothing was skipped. "+
			"See exporter deadletter list --consumer %s, put right what makes them, then resume: the count begins anew, and the batch in flight is let through",
		before+n, n, strings.ToUpper(name), c.lettersPerHour, letters[first].Class, storable(letters[first].Reason), name)}
}

const countRecent = `
SELECT (SELECT count(*) FROM {dead_letters} d
         WHERE d.consumer_uid = c.uid AND d.class NOT IN ('expired', 'held')
           AND d.first_at >= greatest(clock_timestamp() - interval '1 hour', c.letters_from)),
       coalesce(c.letters_from > clock_timestamp() - interval '1 hour', false), c.name
  FROM {consumers} c WHERE c.uid = $1::text::uuid`

// hold records the events that wait for an earlier one of their run. It keeps
// that one from being decided until the transaction ends: a person's replay
// either has decided it before, and then nothing is recorded, or it finds these
// events when it looks for more.
func (c *Cursor) hold(ctx context.Context, tx pgx.Tx, letters []exporter.DeadLetter) error {
	held := slices.DeleteFunc(slices.Clone(letters), func(l exporter.DeadLetter) bool { return l.Class != exporter.ClassHeld })
	if len(held) == 0 {
		return nil
	}
	if err := c.lockHolders(ctx, tx, held); err != nil {
		return err
	}
	var b pgx.Batch
	for i := range held {
		c.queueDeadLetter(&b, &held[i], StateHeld)
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("record held events: %w", deadLetterGrant(err))
	}
	var n int
	var name string
	if err := tx.QueryRow(ctx, c.store.sql(countHeld), c.uid, MaxHeld+1).Scan(&n, &name); err != nil {
		return fmt.Errorf("count held events: %w", err)
	}
	if n > MaxHeld {
		return &exporter.PauseError{Reason: exporter.PausedHeldEvents, Detail: fmt.Sprintf(
			"more than %d events would be held behind dead letters of their runs; nothing was skipped. See exporter deadletter list --consumer %s, "+
				"replay or discard what holds the runs and replay what is held, then resume", MaxHeld, name)}
	}
	return nil
}

const countHeld = `
SELECT (SELECT count(*) FROM (SELECT FROM {dead_letters} d WHERE d.consumer_uid = c.uid AND d.state = 'held' LIMIT $2::integer) h), c.name
  FROM {consumers} c WHERE c.uid = $1::text::uuid`

// lockHolders locks, for each run, one dead letter that holds the events.
func (c *Cursor) lockHolders(ctx context.Context, tx pgx.Tx, held []exporter.DeadLetter) error {
	first := exporter.HeldRuns{}
	for i := range held {
		first.Add(held[i].Event.Identity())
	}
	var b pgx.Batch
	var free []string
	for run, id := range first {
		b.Queue(c.store.sql(lockHolder), c.uid, clean(run), id.Seq, id.EventID).Query(func(rows pgx.Rows) error {
			defer rows.Close()
			if !rows.Next() && rows.Err() == nil {
				free = append(free, run)
			}
			return rows.Err()
		})
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("look at held runs: %w", deadLetterGrant(err))
	}
	if len(free) > 0 {
		return &exporter.ReleasedError{Runs: free}
	}
	return nil
}

// FOR SHARE waits for a decision that is being written, and looks at the row
// again after it.
const lockHolder = `
SELECT d.id FROM {dead_letters} d
 WHERE d.consumer_uid = $1::text::uuid AND hashtextextended(d.run_id, 0) = hashtextextended($2::text, 0) AND d.run_id = $2::text
   AND d.state IN ('open', 'held') AND d.class <> 'expired' AND (d.seq, d.event_id) <= ($3::bigint, $4::bigint)
 LIMIT 1 FOR SHARE`

// HeldRuns returns the runs whose later events have to wait, as they are now.
func (c *Cursor) HeldRuns(ctx context.Context) (exporter.HeldRuns, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := c.store.pool.Query(ctx, c.store.sql(selectHeldRuns), c.uid)
	if err != nil {
		return nil, fmt.Errorf("read held runs of %s: %w", c.name, err)
	}
	runs := exporter.HeldRuns{}
	var id exporter.Identity
	_, err = pgx.ForEachRow(rows, []any{&id.RunID, &id.Seq, &id.EventID}, func() error {
		runs.Add(id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read held runs of %s: %w", c.name, err)
	}
	return runs, nil
}

const selectHeldRuns = `
SELECT DISTINCT ON (d.run_id) d.run_id, d.seq, d.event_id FROM {dead_letters} d
 WHERE d.consumer_uid = $1::text::uuid AND d.state IN ('open', 'held') AND d.class <> 'expired'
 ORDER BY d.run_id, d.seq, d.event_id`
