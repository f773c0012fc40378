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

// Plan is what CreateBackfill makes a backfill from.
type Plan struct {
	Name        string            // [a-z][a-z0-9_]*
	From, Until exporter.Position // Until must hold something that From does not
	Spec        any               // what was asked for, stored as JSON
	By, Reason  string            // for the audit
}

// CreateBackfill makes a backfill that does not exist yet. Its end never
// changes. It changes nothing and returns false when there is a consumer of
// that name, of whatever kind.
func (s *Store) CreateBackfill(ctx context.Context, p Plan) (created bool, err error) {
	if len(p.Until.Minus(p.From)) == 0 {
		return false, fmt.Errorf("create backfill %s: there is nothing between %s and %s", p.Name, p.From, p.Until)
	}
	spec, err := json.Marshal(p.Spec)
	if err != nil {
		return false, fmt.Errorf("create backfill %s: %w", p.Name, err)
	}
	created, err = s.exec(ctx, insertBackfill, p.Name, Backfill, p.From.High, p.From.Holes.String(),
		p.Until.High, p.Until.Holes.String(), string(spec), p.By, p.Reason)
	if err != nil {
		return false, fmt.Errorf("create backfill %s: %w", p.Name, nameError(p.Name, err))
	}
	return created, nil
}

const insertBackfill = `
WITH made AS (
    INSERT INTO {consumers} AS c (name, kind, high_id, holes, until_high, until_holes, spec)
    VALUES ($1::text, $2::text, $3::bigint, $4::text::int8multirange, $5::bigint, $6::text::int8multirange, $7::text::jsonb)
    ON CONFLICT (name) DO NOTHING
    RETURNING c.*)
INSERT INTO {audit} (who, command, consumer, reason, after)
SELECT $8::text, 'create', made.name, $9::text, to_jsonb(made) - 'dead' FROM made`

// BackfillStatus is a backfill as people see it.
type BackfillStatus struct {
	Status
	Until exporter.Position
	Spec  json.RawMessage // as it was given to CreateBackfill, or to SetSpec
}

// Backfills returns all backfills in the order in which they were created.
func (s *Store) Backfills(ctx context.Context) ([]BackfillStatus, error) { return s.backfills(ctx, "") }

// Unfinished returns the backfills that have not ended, in that order.
func (s *Store) Unfinished(ctx context.Context) ([]BackfillStatus, error) {
	return s.backfills(ctx, " AND c.finished_at IS NULL")
}

func (s *Store) backfills(ctx context.Context, which string) ([]BackfillStatus, error) {
	list, err := s.list(ctx, " WHERE c.kind = 'backfill'"+which+" ORDER BY c.created_at, c.name")
	if err != nil {
		return nil, fmt.Errorf("list backfills: %w", err)
	}
	backfills := make([]BackfillStatus, 0, len(list))
	for i := range list {
		b, err := s.backfill(ctx, list[i])
		if errors.Is(err, ErrNotFound) { // removed at this moment
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list backfills: %w", err)
		}
		backfills = append(backfills, b)
	}
	return backfills, nil
}

// Backfill returns one backfill, or ErrNotFound; a live consumer is none.
func (s *Store) Backfill(ctx context.Context, name string) (BackfillStatus, error) {
	status, err := s.Get(ctx, name)
	if err == nil && status.Kind != Backfill {
		err = ErrNotFound
	}
	if err != nil {
		return BackfillStatus{}, fmt.Errorf("read backfill %s: %w", name, err)
	}
	b, err := s.backfill(ctx, status)
	if err != nil {
		return b, fmt.Errorf("read backfill %s: %w", name, err)
	}
	return b, nil
}

func (s *Store) backfill(ctx context.Context, status Status) (BackfillStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	b := BackfillStatus{Status: status}
	var until storedPosition
	var spec string
	err := s.pool.QueryRow(ctx, s.sql(selectBackfill), status.UID).Scan(&until.high, &until.holes, &spec)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return b, err
	}
	b.Spec = json.RawMessage(spec)
	b.Until, err = until.value()
	return b, err
}

const selectBackfill = `
SELECT until_high, until_holes::text, (spec - 'cancelled')::text
  FROM {consumers} WHERE uid = $1::text::uuid AND until_high IS NOT NULL AND spec IS NOT NULL`

// SetSpec replaces what a backfill was asked for, but for its end; a changed
// rate, for example. One that somebody works on is *OwnedError, and one that has
// ended ErrFinished: neither is changed.
func (s *Store) SetSpec(ctx context.Context, name string, spec any, by, reason string) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("change backfill %s: %w", name, err)
	}
	changed, err := s.exec(ctx, audited(
		`c.name = $4::text AND c.kind = 'backfill' AND c.finished_at IS NULL AND `+notOwned, `spec = $5::text::jsonb`,
	), by, "change", reason, name, string(text))
	return s.judge(ctx, "change", name, changed, err, nil)
}

// SetSpec replaces what the backfill was asked for, as Store.SetSpec does, for
// its owner. It succeeds when nothing is to be changed, and returns
// exporter.ErrFenced to a stale owner.
func (c *Cursor) SetSpec(ctx context.Context, spec any, by, reason string) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("change backfill %s: %w", c.name, err)
	}
	changed, err := c.store.exec(ctx, audited(
		`c.uid = $4::text::uuid AND c.epoch = $5::bigint AND c.paused_at IS NULL AND c.spec IS DISTINCT FROM $6::text::jsonb`,
		`spec = $6::text::jsonb`,
	), by, "change", reason, c.uid, c.epoch, string(text))
	if err == nil && !changed {
		err = c.settleSpec(ctx)
	}
	if err != nil {
		return fmt.Errorf("change backfill %s: %w", c.name, err)
	}
	return nil
}

func (c *Cursor) settleSpec(ctx context.Context) error {
	now, err := c.read(ctx, c.store.pool)
	if err != nil || now.epoch == c.epoch && now.pause == nil {
		return err
	}
	return c.fenced(now)
}

// Cancel ends a backfill where it is, for good. Whoever works on it notices at
// the next write or renewal, and keeps the lease until it expires: until then its
// sink may be open. What the sink has been given stays there. It returns false
// when the backfill was finished already.
func (s *Store) Cancel(ctx context.Context, name, by, reason string) (changed bool, err error) {
	changed, err = s.exec(ctx, audited(
		`c.name = $4::text AND c.kind = 'backfill' AND c.finished_at IS NULL`,
		`finished_at = clock_timestamp(), spec = coalesce(c.spec, '{}') || '{"cancelled": true}',
         epoch = c.epoch + 1, revision = c.revision + 1, attempts = 0,
         intent_high = NULL, intent_holes = NULL, intent_events = NULL, intent_rows = NULL, intent_hash = NULL, begun_at = NULL,
         paused_at = NULL, paused_by = NULL, paused_reason = NULL, paused_detail = NULL, last_error = NULL, last_error_at = NULL, waiting_for = NULL`,
	), by, "cancel", reason, name)
	return changed, s.judge(ctx, "cancel", name, changed, err, func(status Status) bool { return status.Finished != nil })
}

// Finish records that a backfill has reached its end, on its owner's account.
// It is refused, with an error, while the stored position does not cover the
// end, and with exporter.ErrFenced to a stale owner. It succeeds when it was
// recorded already.
func (c *Cursor) Finish(ctx context.Context) error {
	changed, err := c.store.exec(ctx, audited(
		`c.uid = $4::text::uuid AND c.epoch = $5::bigint AND c.paused_at IS NULL AND c.finished_at IS NULL AND c.intent_high IS NULL
         AND c.high_id >= c.until_high AND c.holes * int8multirange(int8range(NULL, c.until_high, '[]')) <@ c.until_holes`,
		`finished_at = clock_timestamp(), caught_up_at = clock_timestamp(), last_error = NULL, last_error_at = NULL, waiting_for = NULL, holders = '[]'`,
	), c.owner, "finish", "it reached its end", c.uid, c.epoch)
	if err == nil && !changed {
		err = c.settleFinish(ctx)
	}
	if err != nil {
		return fmt.Errorf("finish %s: %w", c.name, err)
	}
	return nil
}

func (c *Cursor) settleFinish(ctx context.Context) error {
	now, err := c.read(ctx, c.store.pool)
	if err != nil {
		return err
	}
	if now.epoch != c.epoch || now.pause != nil {
		return c.fenced(now)
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var done bool
	err = c.store.pool.QueryRow(ctx, c.store.sql(`SELECT finished_at IS NOT NULL FROM {consumers} WHERE uid = $1::text::uuid`), c.uid).Scan(&done)
	if err == nil && !done {
		err = fmt.Errorf("its position %s has not reached the end", now.position)
	}
	return err
}

// Behind is the running live consumer that is the furthest behind.
type Behind struct {
	Name string        // empty when none is running
	Time time.Duration // since it last saw nothing left to deliver
}

// FurthestBehind returns the live consumer for which it has been longest since
// its owner saw nothing left to deliver, on the database's clock. Owners tell
// that every two seconds. Paused consumers, and those that nobody runs, do not
// count: nothing can slow them down.
func (s *Store) FurthestBehind(ctx context.Context) (Behind, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var b Behind
	var seconds float64
	err := s.pool.QueryRow(ctx, s.sql(selectBehind)).Scan(&b.Name, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, nil
	}
	if err != nil {
		return b, fmt.Errorf("read how far live consumers are behind: %w", err)
	}
	b.Time = time.Duration(seconds * float64(time.Second))
	return b, nil
}

const selectBehind = `
SELECT name, extract(epoch FROM clock_timestamp() - coalesce(caught_up_at, created_at))::float8 AS behind
  FROM {consumers}
 WHERE kind = 'live' AND paused_at IS NULL AND lease_until >= clock_timestamp()
 ORDER BY behind DESC LIMIT 1`
