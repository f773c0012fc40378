package cursor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// queueLoss writes a loss in the transaction that passes its ids.
func (c *Cursor) queueLoss(b *pgx.Batch, l *exporter.Loss) error {
	runs := l.Runs
	if runs == nil {
		runs = []exporter.LostRun{}
	}
	for i := range runs {
		runs[i].RunID = clean(runs[i].RunID)
	}
	text, err := json.Marshal(runs)
	if err != nil {
		return fmt.Errorf("record a loss: %w", err)
	}
	var exactly *string
	if l.Exactly != nil {
		s := l.Exactly.String()
		exactly = &s
	}
	b.Queue(c.store.sql(insertLoss), c.uid, c.row.batch, l.Kind, l.IDs.Lo, l.IDs.Hi, exactly, l.Count, l.Certain,
		timeOrNull(l.Since), timeOrNull(l.Until), string(text), storable(l.Reason))
	return nil
}

const insertLoss = `
INSERT INTO {losses} (consumer_uid, consumer, kind, batch, first_id, last_id, ids, events, certain, since, until, runs, reason)
SELECT c.uid, c.name, $3::text, $2::bigint, $4::bigint, $5::bigint, $6::text::int8multirange, $7::bigint, $8::boolean,
       $9::timestamptz, $10::timestamptz, $11::text::jsonb, $12::text
  FROM {consumers} c WHERE c.uid = $1::text::uuid`

// LossRecord is a loss as it was recorded.
type LossRecord struct {
	ID       int64
	UID      string // of the consumer
	Consumer string
	Batch    int64 // the last one begun when it was recorded
	At       time.Time
	exporter.Loss

	AcceptedAt *time.Time // when a person took note; nil until then
	AcceptedBy string
	Accepted   string // the reason given
}

// Losses returns the losses of a consumer from the oldest on, with open only
// those that no person has accepted.
func (s *Store) Losses(ctx context.Context, name string, open bool) ([]LossRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectLosses), name, open)
	if err != nil {
		return nil, fmt.Errorf("read losses of %s: %w", name, err)
	}
	list, err := pgx.CollectRows(rows, scanLoss)
	if err != nil {
		return nil, fmt.Errorf("read losses of %s: %w", name, err)
	}
	return list, nil
}

const selectLosses = `
SELECT l.id, l.consumer_uid::text, l.consumer, l.batch, l.at, l.kind, l.first_id, l.last_id, l.ids::text, l.events, l.certain,
       l.since, l.until, l.runs::text, l.reason, l.accepted_at, coalesce(l.accepted_by, ''), coalesce(l.accepted_reason, '')
  FROM {losses} l JOIN {consumers} c ON c.uid = l.consumer_uid
 WHERE c.name = $1::text AND (NOT $2::boolean OR l.accepted_at IS NULL)
 ORDER BY l.id`

func scanLoss(row pgx.CollectableRow) (LossRecord, error) {
	var l LossRecord
	var ids *string
	var since, until *time.Time
	var runs string
	err := row.Scan(&l.ID, &l.UID, &l.Consumer, &l.Batch, &l.At, &l.Kind, &l.IDs.Lo, &l.IDs.Hi, &ids, &l.Count, &l.Certain,
		&since, &until, &runs, &l.Reason, &l.AcceptedAt, &l.AcceptedBy, &l.Accepted)
	if err != nil {
		return l, err
	}
	if ids != nil {
		if l.Exactly, err = exporter.ParseRanges(*ids); err != nil {
			return l, fmt.Errorf("read loss %d: %w", l.ID, err)
		}
	}
	if since != nil {
		l.Since = *since
	}
	if until != nil {
		l.Until = *until
	}
	return l, json.Unmarshal([]byte(runs), &l.Runs)
}

// Accepted says what AcceptLosses did.
type Accepted struct {
	IDs     []int64 // of the losses that were open until now
	Left    int64   // losses that stay open
	Resumed bool    // the consumer was halted by a loss and may go on
}

// AcceptLosses notes that a person has seen losses of a consumer: those of the
// ids, or all open ones when there are none. A consumer that a loss has halted
// goes on once none is open. All of it is one transaction, with its audit.
// An id that is no open loss of the consumer is an error, and nothing changes.
func (s *Store) AcceptLosses(ctx context.Context, name string, ids []int64, by, reason string) (a Accepted, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		a = Accepted{}
		var uid string
		if err := tx.QueryRow(ctx, s.sql(`SELECT uid::text FROM {consumers} WHERE name = $1::text FOR UPDATE`), name).Scan(&uid); err != nil {
			if err == pgx.ErrNoRows {
				return ErrNotFound
			}
			return err
		}
		rows, err := tx.Query(ctx, s.sql(acceptLosses), by, reason, uid, name, ids)
		if err != nil {
			return err
		}
		if a.IDs, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return err
		}
		if len(a.IDs) < len(ids) {
			return fmt.Errorf("%d of the %d losses: %w", len(ids)-len(a.IDs), len(ids), ErrNotOpen)
		}
		err = tx.QueryRow(ctx, s.sql(`SELECT count(*) FROM {losses} WHERE consumer_uid = $1::text::uuid AND accepted_at IS NULL`), uid).Scan(&a.Left)
		if err != nil || a.Left > 0 {
			return err
		}
		tag, err := tx.Exec(ctx, s.sql(audited(
			`c.uid = $4::text::uuid AND c.paused_reason = $5::text`,
			`paused_at = NULL, paused_by = NULL, paused_reason = NULL, paused_detail = NULL`,
		)), by, "accept-loss", reason, uid, exporter.PausedPossibleLoss)
		a.Resumed = tag.RowsAffected() > 0
		return err
	})
	resetReadOnly(s.pool, err)
	if err != nil {
		return Accepted{}, fmt.Errorf("accept losses of %s: %w", name, err)
	}
	return a, nil
}

const acceptLosses = `
WITH before AS (
    SELECT l.* FROM {losses} l
     WHERE l.consumer_uid = $3::text::uuid AND l.accepted_at IS NULL AND ($5::bigint[] IS NULL OR l.id = ANY ($5::bigint[])) FOR UPDATE
), after AS (
    UPDATE {losses} l SET accepted_at = clock_timestamp(), accepted_by = $1::text, accepted_reason = $2::text
      FROM before WHERE l.id = before.id RETURNING l.*
), noted AS (
    INSERT INTO {audit} (who, command, consumer, reason, before, after)
    SELECT $1::text, 'accept-loss', $4::text, $2::text, to_jsonb(before), to_jsonb(after) FROM before JOIN after USING (id)
)
SELECT id FROM after ORDER BY id`
