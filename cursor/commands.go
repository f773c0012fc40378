package cursor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	exporter "github.com/docket-exporter/exporter"
)

// Each command of a person is one statement that changes the consumer and
// writes the audit, so that there is no change without a record.

// Pause stops the consumer until Resume. A running owner notices at its next
// write or renewal. Pausing a paused consumer changes nothing, keeps the first
// reason, and returns false; a backfill that has ended is ErrFinished.
func (s *Store) Pause(ctx context.Context, name, by, reason string) (changed bool, err error) {
	changed, err = s.exec(ctx, audited(
		`c.name = $4::text AND c.paused_at IS NULL AND c.finished_at IS NULL`,
		`paused_at = clock_timestamp(), paused_by = $1::text, paused_reason = $5::text, paused_detail = $3::text`,
	), by, "pause", reason, name, exporter.PausedByPerson)
	return changed, s.judge(ctx, "pause", name, changed, err, func(status Status) bool { return status.Paused != nil })
}

// Resume lets a paused consumer go on where it was, whoever paused it. It
// returns false when the consumer was not paused.
func (s *Store) Resume(ctx context.Context, name, by, reason string) (changed bool, err error) {
	changed, err = s.exec(ctx, audited(
		`c.name = $4::text AND c.paused_at IS NOT NULL`,
		`paused_at = NULL, paused_by = NULL, paused_reason = NULL, paused_detail = NULL,
         letters_from = CASE WHEN c.paused_reason = 'dead_letters' THEN clock_timestamp() ELSE c.letters_from END`,
	), by, "resume", reason, name)
	return changed, s.judge(ctx, "resume", name, changed, err, func(status Status) bool { return status.Paused == nil })
}

// Set moves the position to where a person wants it, also back, and forgets the
// batch in flight. It raises epoch and batch number, so nothing the present
// owner does counts any more; it keeps the lease until it notices or expires.
// A consumer that somebody owns is refused, unless takeOver says otherwise, and
// a backfill that has ended is ErrFinished.
// Dead ids above the new position are forgotten, and how far the source has
// been read is unknown until it is read again.
func (s *Store) Set(ctx context.Context, name string, to exporter.Position, takeOver bool, by, reason string) error {
	changed, err := s.exec(ctx, audited(
		`c.name = $4::text AND c.finished_at IS NULL AND ($7::boolean OR `+notOwned+`)`,
		`epoch = c.epoch + 1, revision = c.revision + 1, batch = c.batch + 1, attempts = 0,
         high_id = $5::bigint, holes = $6::text::int8multirange, read_at = NULL, caught_up_at = NULL,
         dead = c.dead * int8multirange(int8range(NULL, $5::bigint, '[]')),
         intent_high = NULL, intent_holes = NULL, intent_events = NULL, intent_rows = NULL, intent_hash = NULL, begun_at = NULL`,
	), by, "set", reason, name, to.High, to.Holes.String(), takeOver)
	return s.judge(ctx, "set", name, changed, err, nil)
}

// Rename gives a consumer that nobody owns another name, also in its dead
// letters, losses and backfills. It stays the same consumer: its uid does not change. A name
// that another consumer has is ErrExists.
func (s *Store) Rename(ctx context.Context, name, to, by, reason string) error {
	changed, err := s.exec(ctx, audited(
		`c.name = $4::text AND `+notOwned,
		`name = $5::text`,
		`letters AS (UPDATE {dead_letters} d SET consumer = $5::text FROM after WHERE d.consumer_uid = after.uid)`,
		`lost AS (UPDATE {losses} l SET consumer = $5::text FROM after WHERE l.consumer_uid = after.uid)`,
		`filled AS (UPDATE {consumers} b SET spec = b.spec || jsonb_build_object('consumer', $5::text) FROM after
		   WHERE b.kind = 'backfill' AND b.uid <> after.uid AND after.kind = 'live' AND b.spec->>'consumer' = $4::text)`,
	), by, "rename", reason, name, to)
	if hasCode(err, uniqueViolation) {
		return fmt.Errorf("rename consumer %s to %s: %w", name, to, ErrExists)
	}
	return s.judge(ctx, "rename", name, changed, nameError(to, err), nil)
}

// Remove deletes a consumer that nobody owns, position and all. Its dead
// letters, losses and audit stay, for they are the only copy of what they say;
// a later consumer of the same name has another uid and does not get them.
func (s *Store) Remove(ctx context.Context, name, by, reason string) error {
	changed, err := s.exec(ctx, remove, by, "remove", reason, name)
	return s.judge(ctx, "remove", name, changed, err, nil)
}

const remove = `
WITH gone AS (DELETE FROM {consumers} c WHERE c.name = $4::text AND ` + notOwned + ` RETURNING c.*)
INSERT INTO {audit} (who, command, consumer, reason, before)
SELECT $1::text, $2::text, gone.name, $3::text, to_jsonb(gone) - 'dead' FROM gone`

// notOwned compares with the database's clock.
const notOwned = `(c.lease_until IS NULL OR c.lease_until < clock_timestamp())`

// audited returns a statement that changes the consumer found by where and
// writes before and after into the audit. Its first parameters are who,
// command and reason. An UPDATE alone cannot return the row as it was.
func audited(where, set string, more ...string) string {
	text := `
WITH before AS (SELECT c.* FROM {consumers} c WHERE ` + where + ` FOR UPDATE),
     after AS (UPDATE {consumers} c SET ` + set + `, updated_at = clock_timestamp()
                 FROM before WHERE c.uid = before.uid RETURNING c.*)`
	for _, m := range more {
		text += ",\n     " + m
	}
	return text + `
INSERT INTO {audit} (who, command, consumer, reason, before, after)
SELECT $1::text, $2::text, before.name, $3::text, to_jsonb(before) - 'dead', to_jsonb(after) - 'dead'
  FROM before JOIN after USING (uid)`
}

func (s *Store) exec(ctx context.Context, sql string, args ...any) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, s.sql(sql), args...)
	resetReadOnly(s.pool, err)
	return tag.RowsAffected() > 0, err
}

// judge says what a command that changed nothing means: done already, no such
// consumer, or one that is owned.
func (s *Store) judge(ctx context.Context, command, name string, changed bool, err error, done func(Status) bool) error {
	if err != nil {
		return fmt.Errorf("%s consumer %s: %w", command, name, err)
	}
	if changed {
		return nil
	}
	status, err := s.Get(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", command, err)
	case done != nil && done(status):
		return nil
	case status.LeaseLive:
		return fmt.Errorf("%s: %w", command, &OwnedError{Name: name, Owner: status.Owner, Until: *status.LeaseUntil})
	case status.Finished != nil:
		return fmt.Errorf("%s consumer %s: %w", command, name, ErrFinished)
	default:
		return fmt.Errorf("%s consumer %s: it changed at this moment, try again", command, name)
	}
}

// SQLSTATE codes that are a person's mistake.
const (
	uniqueViolation       = "23505"
	checkViolation        = "23514"
	insufficientPrivilege = "42501"
)

func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

// nameError explains a name that the table refuses.
func nameError(name string, err error) error {
	if hasCode(err, checkViolation) {
		return fmt.Errorf("consumer name %q: want a lower-case letter, then lower-case letters, digits and _", name)
	}
	return err
}

// Pause stops the consumer on its owner's account, with the owner as the one
// who did it. The lease stays until Release, and what the consumer was stuck on
// before is forgotten: the pause says what it is stuck on now. It succeeds when the consumer is
// paused already, and returns exporter.ErrFenced to a stale owner.
func (c *Cursor) Pause(ctx context.Context, why *exporter.PauseError) error {
	changed, err := c.store.exec(ctx, audited(
		`c.uid = $4::text::uuid AND c.epoch = $5::bigint AND c.paused_at IS NULL`,
		`paused_at = clock_timestamp(), paused_by = $1::text, paused_reason = $6::text, paused_detail = $3::text,
         last_error = NULL, last_error_at = NULL, waiting_for = NULL`,
	), c.owner, "pause", why.Detail, c.uid, c.epoch, why.Reason)
	if err == nil && !changed {
		err = c.settlePause(ctx)
	}
	if err != nil {
		return fmt.Errorf("pause %s: %w", c.name, err)
	}
	return nil
}

func (c *Cursor) settlePause(ctx context.Context) error {
	now, err := c.read(ctx, c.store.pool)
	if err != nil || now.epoch == c.epoch && now.pause != nil {
		return err
	}
	return c.fenced(now)
}
