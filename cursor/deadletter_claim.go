package cursor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Words of the audit.
const (
	replayCommand  = "deadletter replay"
	discardCommand = "deadletter discard"
)

// ClaimLetters takes undecided letters for a replay, until ttl from now on the
// database's clock, and returns those that it got, whole, in the order in which
// they are to be sent. It leaves out what is decided, what another replay has,
// and what must wait: while events of a run are held, none of its letters goes
// before an earlier one that is undecided.
//
// by is a name that no other replay has. A claim can be repeated, which
// prolongs it. It does not touch the consumer: its owner goes on.
func (s *Store) ClaimLetters(ctx context.Context, ids []int64, by string, ttl time.Duration) ([]DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(claimLetters), ids, by, ttl.Seconds())
	resetReadOnly(s.pool, err)
	if err != nil {
		return nil, fmt.Errorf("claim dead letters: %w", err)
	}
	got, err := pgx.CollectRows(rows, scanLetter)
	resetReadOnly(s.pool, err)
	if err != nil {
		return nil, fmt.Errorf("claim dead letters: %w", err)
	}
	slices.SortFunc(got, func(a, b DeadLetter) int { return a.Event.Identity().Compare(b.Event.Identity()) })
	return got, nil
}

const claimLetters = `
WITH wanted AS (
    SELECT d.id, d.consumer_uid, d.run_id, d.seq, d.event_id FROM {dead_letters} d
     WHERE d.id = ANY ($1::bigint[]) AND d.state IN ('open', 'held')
       AND (d.claimed_until IS NULL OR d.claimed_until < clock_timestamp() OR d.claimed_by = $2::text)
     ORDER BY d.id FOR UPDATE),
     ready AS (
    SELECT w.id FROM wanted w
     WHERE NOT EXISTS (
           SELECT FROM {dead_letters} e
            WHERE e.consumer_uid = w.consumer_uid AND hashtextextended(e.run_id, 0) = hashtextextended(w.run_id, 0) AND e.run_id = w.run_id
              AND e.state IN ('open', 'held') AND e.class <> 'expired'
              AND (e.seq, e.event_id) < (w.seq, w.event_id) AND e.id NOT IN (SELECT id FROM wanted))
        OR NOT EXISTS (
           SELECT FROM {dead_letters} h
            WHERE h.consumer_uid = w.consumer_uid AND hashtextextended(h.run_id, 0) = hashtextextended(w.run_id, 0) AND h.run_id = w.run_id
              AND h.state = 'held'))
UPDATE {dead_letters} d
   SET claimed_by = $2::text, claimed_until = clock_timestamp() + $3::float8 * interval '1 second'
  FROM ready WHERE d.id = ready.id
RETURNING ` + letterColumns + `, d.payload, d.metadata`

// UnclaimLetters gives letters back that were not sent.
func (s *Store) UnclaimLetters(ctx context.Context, ids []int64, by string) error {
	_, err := s.exec(ctx, `UPDATE {dead_letters} SET claimed_by = NULL, claimed_until = NULL
		WHERE id = ANY ($1::bigint[]) AND claimed_by = $2::text`, ids, by)
	if err != nil {
		return fmt.Errorf("give dead letters back: %w", err)
	}
	return nil
}

// Reviewed says, for the audit, who decided and why.
type Reviewed struct {
	By, Reason string
}

// Replayed writes down that the sink has accepted letters that by has claimed,
// and returns those for which it was still so: all of them, unless the claim
// had expired and another replay or a person was faster.
func (s *Store) Replayed(ctx context.Context, ids []int64, by string, r Reviewed) ([]int64, error) {
	return s.decide(ctx, replayCommand, r, nil,
		`d.id = ANY ($4::bigint[]) AND d.state IN ('open', 'held') AND d.claimed_by = $6::text`,
		`state = 'replayed', replays = d.replays + 1, last_error = $5::text`, ids, by)
}

// ReplayFailed writes down why the sink did not accept a letter, which stays.
func (s *Store) ReplayFailed(ctx context.Context, id int64, by string, why string, r Reviewed) error {
	why = storable(why)
	_, err := s.decide(ctx, replayCommand, r, &why,
		`d.id = ANY ($4::bigint[]) AND d.state IN ('open', 'held') AND d.claimed_by = $6::text`,
		`replays = d.replays + 1, last_error = $5::text`, []int64{id}, by)
	return err
}

// Discard gives up undecided letters and returns their ids. It leaves out those
// that a replay has claimed. What is held behind them stays held, until it is
// replayed or discarded too.
func (s *Store) Discard(ctx context.Context, ids []int64, r Reviewed) ([]int64, error) {
	return s.decide(ctx, discardCommand, r, nil,
		`d.id = ANY ($4::bigint[]) AND d.state IN ('open', 'held')
		 AND (d.claimed_until IS NULL OR d.claimed_until < clock_timestamp()) AND ($6::text IS NULL)`,
		`state = 'discarded', last_error = coalesce($5::text, d.last_error)`, ids, "")
}

// decide changes letters and writes one row of the audit for each, in one
// statement, and ends their claims.
func (s *Store) decide(ctx context.Context, command string, r Reviewed, why *string, where, set string, ids []int64, by string) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(`
WITH before AS (SELECT d.id, d.state FROM {dead_letters} d WHERE `+where+` ORDER BY d.id FOR UPDATE),
     after AS (UPDATE {dead_letters} d SET `+set+`, claimed_by = NULL, claimed_until = NULL, changed_at = clock_timestamp()
                 FROM before WHERE d.id = before.id
               RETURNING d.id, d.consumer, d.run_id, d.seq, d.event_id, d.state, before.state AS was)
INSERT INTO {audit} (who, command, consumer, reason, before, after)
SELECT $1::text, $2::text, after.consumer, $3::text,
       jsonb_build_object('dead_letter', id, 'run_id', run_id, 'seq', seq, 'event_id', event_id, 'state', was),
       jsonb_strip_nulls(jsonb_build_object('dead_letter', id, 'state', state, 'error', $5::text))
  FROM after ORDER BY id
RETURNING (after ->> 'dead_letter')::bigint`), r.By, command, r.Reason, ids, why, textOrNull(by))
	resetReadOnly(s.pool, err)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	done, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	resetReadOnly(s.pool, err)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return done, nil
}

// HeldBehind returns the held letters of the runs of some letters: what may go
// now that those are decided.
func (s *Store) HeldBehind(ctx context.Context, ids []int64) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectHeldBehind), ids)
	if err != nil {
		return nil, fmt.Errorf("look for held events: %w", err)
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("look for held events: %w", err)
	}
	return held, nil
}

const selectHeldBehind = `
SELECT d.id FROM {dead_letters} d
  JOIN (SELECT DISTINCT consumer_uid, run_id FROM {dead_letters} WHERE id = ANY ($1::bigint[])) r
    ON d.consumer_uid = r.consumer_uid AND hashtextextended(d.run_id, 0) = hashtextextended(r.run_id, 0) AND d.run_id = r.run_id
 WHERE d.state = 'held'
 ORDER BY d.consumer_uid, d.run_id COLLATE "C", d.seq, d.event_id`

// PurgeLetters deletes letters that were decided longer ago than age, and
// writes into the audit how many. Undecided ones are never deleted.
func (s *Store) PurgeLetters(ctx context.Context, consumer string, age time.Duration, dry bool, r Reviewed) (int64, error) {
	const decided = `d.state IN ('replayed', 'discarded') AND ($1::text IS NULL OR d.consumer = $1::text)
		AND d.changed_at < clock_timestamp() - $2::float8 * interval '1 second'`
	ctx, cancel := context.WithTimeout(ctx, 6*statementTimeout)
	defer cancel()
	text := `SELECT count(*) FROM {dead_letters} d WHERE ` + decided
	args := []any{textOrNull(consumer), age.Seconds()}
	if !dry {
		text = `WITH gone AS (DELETE FROM {dead_letters} d WHERE ` + decided + ` RETURNING d.consumer_uid, d.event_id, d.state),
			given_up AS (SELECT jsonb_object_agg(consumer_uid, ids) AS by_consumer
			               FROM (SELECT consumer_uid, jsonb_agg(event_id ORDER BY event_id) AS ids FROM gone WHERE state = 'discarded' GROUP BY 1) AS x),
			said AS (INSERT INTO {audit} (who, command, consumer, reason, before)
			         SELECT $3::text, 'deadletter purge', $1::text, $4::text,
			                jsonb_build_object('dead_letters', count(*), 'older_than_seconds', $2::float8, 'discarded', (SELECT by_consumer FROM given_up))
			           FROM gone HAVING count(*) > 0)
			SELECT count(*) FROM gone`
		args = append(args, r.By, r.Reason)
	}
	var n int64
	if err := s.pool.QueryRow(ctx, s.sql(text), args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("deadletter purge: %w", err)
	}
	return n, nil
}
