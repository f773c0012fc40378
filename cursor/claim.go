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

// Claim takes the consumer for owner, a name that no other process has, until
// ttl from now on the database's clock. It succeeds when nobody owns the
// consumer, its lease has expired, or owner has it already; each claim raises
// the epoch, so an earlier owner's writes count no more. Otherwise the error is
// *OwnedError, *PausedError, ErrFinished or ErrNotFound.
//
// A process of the name owner that was killed loses the consumer so at once to
// the next one. If it was not killed, and two processes have one name after all,
// the later one keeps it: a process that has owned the consumer before waits like
// anybody.
//
// The lease must be renewed by Run or Renew and given up by Release.
func (s *Store) Claim(ctx context.Context, name, owner string, ttl time.Duration) (*Cursor, exporter.State, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	c := &Cursor{store: s, name: name, owner: owner, ttl: ttl, renewed: time.Now()}
	var state exporter.State
	var holders, dead string
	var mark storedMark
	var readAt *time.Time
	var holeAge *float64
	_, before := s.owned.Load(name)
	err := c.scan(s.pool.QueryRow(ctx, s.sql(claim), name, owner, ttl.Seconds(), s.instance, !before),
		&dead, &holders, &mark.id, &mark.run, &mark.seq, &mark.hash, &mark.at, &readAt, &holeAge)
	resetReadOnly(s.pool, err)
	if errors.Is(err, pgx.ErrNoRows) {
		err := s.whyNot(ctx, name)
		if other, ok := errors.AsType[*OwnedError](err); ok && other.Owner == owner {
			s.shared.Store(true)
		}
		return nil, state, err
	}
	if err == nil {
		err = json.Unmarshal([]byte(holders), &state.Holders)
	}
	if err == nil {
		state.Dead, err = exporter.ParseRanges(dead)
	}
	if err == nil {
		state.Mark, err = mark.value()
	}
	if err != nil {
		return nil, state, fmt.Errorf("claim consumer %s: %w", name, err)
	}
	if readAt != nil {
		state.ReadAt = *readAt
	}
	if holeAge != nil {
		state.HoleAge = time.Duration(*holeAge * float64(time.Second))
	}
	s.owned.Store(name, true)
	c.uid, c.epoch = c.row.uid, c.row.epoch
	c.dead.stored, c.dead.wanted = state.Dead, state.Dead
	state.UID, state.Position, state.Number, state.Intent = c.row.uid, c.row.position, c.row.batch, c.row.intent
	return c, state, nil
}

const claim = `
UPDATE {consumers} c
   SET epoch = epoch + 1, revision = revision + 1, owner = $2::text, instance = $4::text,
       lease_until = clock_timestamp() + $3::float8 * interval '1 second',
       updated_at = clock_timestamp()
 WHERE name = $1::text AND paused_at IS NULL AND finished_at IS NULL
   AND (lease_until IS NULL OR lease_until < clock_timestamp() OR owner = $2::text AND (instance = $4::text OR $5::boolean))
RETURNING ` + rowColumns + `, dead::text, holders::text, mark_event_id, mark_run_id, mark_seq, encode(mark_hash, 'hex'), mark_at, read_at,
    extract(epoch FROM clock_timestamp() - oldest_hole_at)::float8`

// whyNot says why a claim changed nothing.
func (s *Store) whyNot(ctx context.Context, name string) error {
	status, err := s.Get(ctx, name)
	switch {
	case err != nil:
		return err
	case status.Finished != nil:
		return fmt.Errorf("claim consumer %s: %w", name, ErrFinished)
	case status.Paused != nil:
		return &PausedError{Name: name, Pause: *status.Paused}
	case status.LeaseUntil != nil:
		return &OwnedError{Name: name, Owner: status.Owner, Until: *status.LeaseUntil}
	default:
		return fmt.Errorf("claim consumer %s: it was given up at this moment, try again", name)
	}
}
