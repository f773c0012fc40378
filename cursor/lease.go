package cursor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// Heartbeat is what an owner tells with each renewal, for people to see.
type Heartbeat struct {
	CaughtUp  *time.Duration    // how long ago nothing was left to deliver; nil when that is not known
	ReadAt    time.Time         // as in exporter.Batch; zero when it is not known
	Polled    *time.Duration    // how long ago the source was read with success; nil when it has not been
	Oldest    *time.Duration    // how long the oldest open id is known to be open; nil when none is
	Holders   []exporter.Holder // transactions that keep ids open
	Source    *Seen             // the source as it was last read; nil when it has not been
	LastError string            // what the consumer is stuck on; empty when it is not
	Waiting   string            // out of consideration for whom a backfill reads nothing; empty when it reads
}

// Renew extends the lease to the claim's TTL from now on the database's clock.
// It returns exporter.ErrFenced when the lease is lost, together with a
// *PausedError when somebody paused the consumer.
func (c *Cursor) Renew(ctx context.Context, h Heartbeat) error {
	if h.Holders == nil {
		h.Holders = []exporter.Holder{}
	}
	holders, err := json.Marshal(h.Holders)
	if err != nil {
		return fmt.Errorf("renew lease of %s: %w", c.name, err)
	}
	seen, err := h.Source.stored()
	if err != nil {
		return fmt.Errorf("renew lease of %s: %w", c.name, err)
	}
	sent := time.Now()
	var slow bool
	err = c.store.renewals.QueryRow(ctx, c.store.sql(renew), c.uid, c.epoch, c.owner,
		c.ttl.Seconds(), seconds(h.CaughtUp), string(holders), storable(h.LastError), c.store.longTransaction.Seconds(),
		timeOrNull(h.ReadAt), seconds(h.Polled), seconds(h.Oldest), seen, storable(h.Waiting)).Scan(&slow)
	resetReadOnly(c.store.renewals, err)
	if errors.Is(err, pgx.ErrNoRows) {
		err = c.whyLost(ctx)
	}
	if err != nil {
		return fmt.Errorf("renew lease of %s: %w", c.name, err)
	}
	c.slow.Store(slow)
	c.extend(sent)
	return nil
}

// The answer says whether a long transaction is open that keeps old versions of
// the row alive, as far as our role may see: one in this database, or one in any
// database that has written something. See pace.
const renew = `
UPDATE {consumers}
   SET lease_until = clock_timestamp() + $4::float8 * interval '1 second',
       caught_up_at = coalesce(clock_timestamp() - $5::float8 * interval '1 second', caught_up_at),
       read_at = greatest(read_at, $9::timestamptz),
       polled_at = coalesce(clock_timestamp() - $10::float8 * interval '1 second', polled_at),
       oldest_hole_at = clock_timestamp() - $11::float8 * interval '1 second',
       holders = $6::text::jsonb,
       source_seen = coalesce($12::text::jsonb, source_seen),
       waiting_for = nullif($13::text, ''),
       last_error = nullif($7::text, ''),
       last_error_at = CASE WHEN $7::text = '' THEN NULL
                            WHEN last_error = $7::text THEN last_error_at
                            ELSE clock_timestamp() END
 WHERE uid = (SELECT uid FROM {consumers}
               WHERE uid = $1::text::uuid AND epoch = $2::bigint AND owner = $3::text AND paused_at IS NULL
                 FOR UPDATE SKIP LOCKED)
RETURNING EXISTS (SELECT FROM pg_catalog.pg_stat_activity
                   WHERE (datname = current_database() OR backend_xid IS NOT NULL) AND backend_type = 'client backend'
                     AND xact_start < clock_timestamp() - $8::float8 * interval '1 second')
       OR EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts
                   WHERE prepared < clock_timestamp() - $8::float8 * interval '1 second')`

// whyLost says why a renewal changed nothing.
func (c *Cursor) whyLost(ctx context.Context) error {
	now, err := c.read(ctx, c.store.renewals)
	if err != nil {
		return err
	}
	if now.epoch == c.epoch && now.pause == nil && now.owner == c.owner {
		return errors.New("somebody has locked the consumer's row") // not waited for: the others' renewals come next
	}
	if now.epoch == c.epoch && now.pause == nil {
		return fmt.Errorf("%w: the lease was given up", exporter.ErrFenced)
	}
	return c.fenced(now)
}

// Release gives the lease up, so that another process can claim the consumer at
// once. abandoned says that the last attempt begun was cut short by our own
// shutdown: it does not count. A paused consumer is released too.
func (c *Cursor) Release(ctx context.Context, abandoned bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	tag, err := c.store.pool.Exec(ctx, c.store.sql(release), c.uid, c.epoch, c.owner,
		c.dead.changed(c.dead.wanted), abandoned, c.begun.Number, c.begun.Attempt)
	resetReadOnly(c.store.pool, err)
	if err == nil && tag.RowsAffected() == 0 {
		err = c.settleRelease(ctx)
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", c.name, err)
	}
	return nil
}

func (c *Cursor) settleRelease(ctx context.Context) error {
	now, err := c.read(ctx, c.store.pool)
	if err != nil || now.epoch == c.epoch && now.owner == "" {
		return err
	}
	return c.fenced(now)
}

// The revision is not compared, because the outcome of the last write may be
// unknown; it is raised so that a write still under way changes nothing.
const release = `
UPDATE {consumers}
   SET owner = NULL, lease_until = NULL,
       dead = coalesce($4::text::int8multirange, dead),
       attempts = attempts - CASE WHEN $5::boolean AND intent_high IS NOT NULL
                                   AND batch = $6::bigint AND attempts = $7::integer THEN 1 ELSE 0 END,
       updated_at = clock_timestamp(), revision = revision + 1
 WHERE uid = $1::text::uuid AND epoch = $2::bigint AND owner = $3::text`

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Seconds()
	return &s
}
