package cursor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// Cursor is a consumer in the hands of its owner. Begin, Accept, Reopen, Pause
// and Release take turns; Renew may run beside them.
type Cursor struct {
	store *Store
	name  string
	uid   string
	epoch int64
	owner string
	ttl   time.Duration

	mu    sync.Mutex
	row   row             // as the last write that surely went through left it
	begun exporter.Intent // the last attempt Begin was asked for, whether or not its outcome is known
	dead  deadIDs
	wrote time.Time

	lettersPerHour int // 0 is no limit

	slow atomic.Bool // a long transaction is open: see pace

	renewing sync.Mutex
	renewed  time.Time // when the last successful renewal was sent; monotonic
}

var _ exporter.Cursor = (*Cursor)(nil)

// Name returns the consumer's name at the time of the claim.
func (c *Cursor) Name() string { return c.name }

// Epoch returns the ownership number of this claim.
func (c *Cursor) Epoch() int64 { return c.epoch }

// Begin implements exporter.Cursor. The intent is either the first attempt at
// the batch after the last one, or the next attempt at the batch in flight.
func (c *Cursor) Begin(ctx context.Context, intent exporter.Intent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkBegin(intent); err != nil {
		return err
	}
	want := c.row
	want.batch, want.attempts, want.intent = intent.Number, intent.Attempt, &intent
	c.begun = intent
	return c.write(ctx, want, func(ctx context.Context) (int64, error) {
		tag, err := c.store.pool.Exec(ctx, c.store.sql(begin), c.uid, c.epoch, c.row.revision,
			intent.Number, intent.Attempt, intent.To.High, intent.To.Holes.String(), intent.Events, intent.Rows, intent.Hash[:])
		return tag.RowsAffected(), err
	})
}

func (c *Cursor) checkBegin(in exporter.Intent) error {
	number, attempt := c.row.batch+1, 1
	if c.row.intent != nil {
		number, attempt = c.row.batch, c.row.attempts+1
	}
	if in.Number != number || in.Attempt != attempt {
		return fmt.Errorf("begin batch %d attempt %d of %s: want batch %d attempt %d", in.Number, in.Attempt, c.name, number, attempt)
	}
	return c.checkForward("begin", in.To)
}

// checkForward refuses a position in which an id would be open that is done.
func (c *Cursor) checkForward(verb string, to exporter.Position) error {
	if lost := c.row.position.Minus(to); len(lost) > 0 {
		return fmt.Errorf("%s at %s of %s: ids %s are done and would be open again", verb, to, c.name, lost)
	}
	return nil
}

const begin = `
UPDATE {consumers}
   SET batch = $4::bigint, attempts = $5::integer,
       intent_high = $6::bigint, intent_holes = $7::text::int8multirange,
       intent_events = $8::bigint, intent_rows = $9::bigint, intent_hash = $10::bytea,
       begun_at = clock_timestamp(), updated_at = clock_timestamp(), revision = revision + 1
 WHERE uid = $1::text::uuid AND epoch = $2::bigint AND revision = $3::bigint AND paused_at IS NULL`

// Accept implements exporter.Cursor.
func (c *Cursor) Accept(ctx context.Context, a exporter.Acceptance) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.row.intent != nil && a.Number != c.row.batch {
		return fmt.Errorf("accept batch %d of %s: batch %d is in flight", a.Number, c.name, c.row.batch)
	}
	if err := c.checkForward("accept", a.To); err != nil {
		return err
	}
	want := c.row
	want.position, want.attempts, want.intent = a.To, 0, nil
	if next := a.Next; next != nil {
		if err := c.checkNext(a); err != nil {
			return err
		}
		want.batch, want.attempts, want.intent = next.Number, next.Attempt, next
	}
	dead := c.dead.due(a.Dead)
	err := c.write(ctx, want, func(ctx context.Context) (int64, error) {
		if len(a.DeadLetters) == 0 && len(a.Lost) == 0 {
			return c.accept(ctx, c.store.pool, a, dead)
		}
		return c.acceptWithRecords(ctx, a, dead)
	})
	if err == nil {
		c.dead.note(a.Dead, dead != nil)
		if a.Next != nil {
			c.begun = *a.Next
		}
	}
	return err
}

// checkNext checks the batch that begins with an acceptance.
func (c *Cursor) checkNext(a exporter.Acceptance) error {
	if a.Next.Number != a.Number+1 || a.Number != c.row.batch || a.Next.Attempt != 1 {
		return fmt.Errorf("accept batch %d of %s: the next one cannot be batch %d attempt %d", a.Number, c.name, a.Next.Number, a.Next.Attempt)
	}
	if lost := a.To.Minus(a.Next.To); len(lost) > 0 {
		return fmt.Errorf("accept batch %d of %s: ids %s would be open again in the next one", a.Number, c.name, lost)
	}
	return nil
}

// accept moves the position. The database checks once more that it moves
// forward, on the row as it is there.
func (c *Cursor) accept(ctx context.Context, db execer, a exporter.Acceptance, dead *string) (int64, error) {
	var id, seq *int64
	var run *string
	if a.Last != nil {
		text := clean(a.Last.RunID)
		id, run, seq = &a.Last.EventID, &text, &a.Last.Seq
	}
	mark := storedMarkOf(a.Mark)
	var next nextIntent
	if in := a.Next; in != nil {
		holes := in.To.Holes.String()
		next = nextIntent{&in.Number, &in.To.High, &holes, &in.Events, &in.Rows, in.Hash[:]}
	}
	tag, err := db.Exec(ctx, c.store.sql(accept), c.uid, c.epoch, c.row.revision,
		a.To.High, a.To.Holes.String(), dead, a.Events, id, run, seq,
		next.number, next.high, next.holes, next.events, next.rows, next.hash,
		mark.id, mark.run, mark.seq, mark.hash, mark.at)
	return tag.RowsAffected(), err
}

// nextIntent is the intent that begins with an acceptance; all NULL for none.
type nextIntent struct {
	number, high *int64
	holes        *string
	events, rows *int
	hash         []byte
}

const accept = `
UPDATE {consumers}
   SET high_id = $4::bigint, holes = $5::text::int8multirange,
       dead = coalesce($6::text::int8multirange, dead),
       batch = coalesce($11::bigint, batch), attempts = CASE WHEN $11::bigint IS NULL THEN 0 ELSE 1 END,
       intent_high = $12::bigint, intent_holes = $13::text::int8multirange,
       intent_events = $14::bigint, intent_rows = $15::bigint, intent_hash = $16::bytea,
       begun_at = CASE WHEN $11::bigint IS NULL THEN NULL ELSE clock_timestamp() END,
       accepted_at = CASE WHEN $7::bigint > 0 THEN clock_timestamp() ELSE accepted_at END,
       events_accepted = events_accepted + $7::bigint,
       last_event_id = coalesce($8::bigint, last_event_id), last_run_id = coalesce($9::text, last_run_id),
       last_seq = coalesce($10::bigint, last_seq),
       mark_event_id = coalesce($17::bigint, mark_event_id), mark_run_id = coalesce($18::text, mark_run_id),
       mark_seq = coalesce($19::bigint, mark_seq), mark_hash = coalesce(decode($20::text, 'hex'), mark_hash), mark_at = coalesce($21::timestamptz, mark_at),
       last_error = CASE WHEN $7::bigint > 0 THEN NULL ELSE last_error END,
       last_error_at = CASE WHEN $7::bigint > 0 THEN NULL ELSE last_error_at END,
       updated_at = clock_timestamp(), revision = revision + 1
 WHERE uid = $1::text::uuid AND epoch = $2::bigint AND revision = $3::bigint AND paused_at IS NULL
   AND high_id <= $4::bigint
   AND $5::text::int8multirange <@ (holes + int8multirange(int8range(high_id, $4::bigint, '(]')))`

// Reopen implements exporter.Cursor. It is refused while a batch is in flight,
// because that batch was read without the reopened rows and would pass them.
// High may move forward with it, as with Accept.
func (c *Cursor) Reopen(ctx context.Context, to exporter.Position, dead exporter.Ranges) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.row.intent != nil {
		return fmt.Errorf("reopen %s: batch %d is in flight", c.name, c.row.batch)
	}
	if to.High < c.row.position.High {
		return fmt.Errorf("reopen %s: %s lies below %s", c.name, to, c.row.position)
	}
	want := c.row
	want.position = to
	err := c.write(ctx, want, func(ctx context.Context) (int64, error) {
		tag, err := c.store.pool.Exec(ctx, c.store.sql(reopen), c.uid, c.epoch, c.row.revision,
			to.High, to.Holes.String(), dead.String())
		return tag.RowsAffected(), err
	})
	if err == nil {
		c.dead.note(dead, true)
	}
	return err
}

const reopen = `
UPDATE {consumers}
   SET high_id = $4::bigint, holes = $5::text::int8multirange, dead = $6::text::int8multirange,
       updated_at = clock_timestamp(), revision = revision + 1
 WHERE uid = $1::text::uuid AND epoch = $2::bigint AND revision = $3::bigint AND paused_at IS NULL
   AND high_id <= $4::bigint AND intent_high IS NULL`
