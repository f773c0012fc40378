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

// Status is a consumer as people and the lag collector see it. Times are the
// database's; absent ones are nil.
type Status struct {
	UID      string
	Name     string
	Kind     string // Live or Backfill
	Position exporter.Position
	Batch    int64            // number of the last batch begun
	Intent   *exporter.Intent // the batch in flight; nil when there is none
	BegunAt  *time.Time       // of the attempt in flight

	Epoch      int64
	Owner      string // empty when nobody owns it
	LeaseUntil *time.Time
	LeaseLive  bool // somebody owns it and the lease has not expired

	CaughtUpAt       *time.Time // the owner last saw nothing left to deliver
	AcceptedAt       *time.Time // a sink last accepted an event
	EventsAccepted   int64
	PolledAt         *time.Time         // the owner last read the source with success
	ReadAt           *time.Time         // what was inserted before has been read, but for open ids; on Docket's database clock
	OldestHoleAt     *time.Time         // since when the oldest open id is known to be open; nil when none is
	Mark             *exporter.Mark     // the row of the highest id read
	Last             *exporter.Identity // the accepted event of the highest id in the newest batch that had one
	DeadLetters      int64              // undecided ones: open and held
	DeadLettersOpen  int64              // wait for a person
	DeadLettersHeld  int64              // wait for an earlier event of their run
	DeadLetterOldest *time.Time         // when the oldest undecided one was put aside; nil when there is none
	Losses           int64              // recorded, and not yet accepted by a person

	LastError   string // what the owner is stuck on; empty when it is not
	LastErrorAt *time.Time
	Waiting     string // out of consideration for whom a backfill reads nothing; empty when it reads, and while nobody owns it
	Paused      *Pause // nil when it is not
	Holders     []exporter.Holder
	Finished    *time.Time // when a backfill ended; nil when it has not
	Cancelled   bool       // a person ended it; it is Finished then, too

	CreatedAt, UpdatedAt time.Time
	Now                  time.Time // the database's clock at reading, to measure ages with
}

// Words for Status.State; the view export_status uses the same.
const (
	Paused    = "paused"    // by a person or by the exporter; nothing moves
	Running   = "running"   // owned
	Unowned   = "unowned"   // no process works on it
	Finished  = "finished"  // a backfill that has reached its end
	Cancelled = "cancelled" // a backfill that a person has ended
)

// State is the consumer's state in one word.
func (s *Status) State() string {
	switch {
	case s.Cancelled:
		return Cancelled
	case s.Finished != nil:
		return Finished
	case s.Paused != nil:
		return Paused
	case s.LeaseLive:
		return Running
	default:
		return Unowned
	}
}

// List returns all consumers by name.
func (s *Store) List(ctx context.Context) ([]Status, error) {
	list, err := s.list(ctx, " ORDER BY c.name")
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	return list, nil
}

func (s *Store) list(ctx context.Context, which string) ([]Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectStatus+which))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanStatus)
}

// Get returns one consumer, or ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectStatus+" WHERE c.name = $1::text"), name)
	if err != nil {
		return Status{}, fmt.Errorf("read consumer %s: %w", name, err)
	}
	status, err := pgx.CollectExactlyOneRow(rows, scanStatus)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Status{}, fmt.Errorf("read consumer %s: %w", name, err)
	}
	return status, nil
}

const selectStatus = `
SELECT c.uid::text, c.name, c.kind, c.high_id, c.holes::text, c.batch, c.attempts,
       c.intent_high, c.intent_holes::text, c.intent_events, c.intent_rows, encode(c.intent_hash, 'hex'), c.begun_at,
       c.epoch, coalesce(c.owner, ''), c.lease_until, coalesce(c.lease_until >= clock_timestamp(), false),
       c.caught_up_at, c.accepted_at, c.events_accepted, c.last_event_id, c.last_run_id, c.last_seq,
       l.open, l.held, l.oldest,
       (SELECT count(*) FROM {losses} l WHERE l.consumer_uid = c.uid AND l.accepted_at IS NULL),
       coalesce(c.last_error, ''), c.last_error_at, CASE WHEN c.lease_until >= clock_timestamp() THEN coalesce(c.waiting_for, '') ELSE '' END,
       c.paused_reason, c.paused_detail, c.paused_by, c.paused_at,
       c.polled_at, c.read_at, c.oldest_hole_at, c.mark_event_id, c.mark_run_id, c.mark_seq, encode(c.mark_hash, 'hex'), c.mark_at,
       c.holders::text, c.finished_at, coalesce((c.spec->>'cancelled')::boolean, false), c.created_at, c.updated_at, clock_timestamp()
  FROM {consumers} c
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE d.state = 'open') AS open, count(*) FILTER (WHERE d.state = 'held') AS held, min(d.first_at) AS oldest
         FROM {dead_letters} d WHERE d.consumer_uid = c.uid AND d.state IN ('open', 'held')) l`

func scanStatus(row pgx.CollectableRow) (Status, error) {
	var s Status
	var p storedPosition
	var in storedIntent
	var pause storedPause
	var lastID, lastSeq *int64
	var lastRun *string
	var holders string
	var mark storedMark
	err := row.Scan(&s.UID, &s.Name, &s.Kind, &p.high, &p.holes, &s.Batch, &in.attempt,
		&in.high, &in.holes, &in.events, &in.rows, &in.hash, &s.BegunAt,
		&s.Epoch, &s.Owner, &s.LeaseUntil, &s.LeaseLive,
		&s.CaughtUpAt, &s.AcceptedAt, &s.EventsAccepted, &lastID, &lastRun, &lastSeq,
		&s.DeadLettersOpen, &s.DeadLettersHeld, &s.DeadLetterOldest, &s.Losses, &s.LastError, &s.LastErrorAt, &s.Waiting,
		&pause.reason, &pause.detail, &pause.by, &pause.at,
		&s.PolledAt, &s.ReadAt, &s.OldestHoleAt, &mark.id, &mark.run, &mark.seq, &mark.hash, &mark.at,
		&holders, &s.Finished, &s.Cancelled, &s.CreatedAt, &s.UpdatedAt, &s.Now)
	if err != nil {
		return s, err
	}
	if lastID != nil && lastRun != nil && lastSeq != nil {
		s.Last = &exporter.Identity{RunID: *lastRun, Seq: *lastSeq, EventID: *lastID}
	}
	s.DeadLetters = s.DeadLettersOpen + s.DeadLettersHeld
	s.Paused = pause.value()
	if s.Position, err = p.value(); err != nil {
		return s, err
	}
	if s.Mark, err = mark.value(); err != nil {
		return s, err
	}
	if s.Intent, err = in.value(s.Batch); err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(holders), &s.Holders)
}
