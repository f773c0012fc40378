package cursor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// maxReason is the number of characters kept of what a sink said.
const maxReason = 500

// acceptWithRecords moves the position and writes what it leaves behind, or
// does neither. Records that exist already are those of an earlier attempt.
func (c *Cursor) acceptWithRecords(ctx context.Context, a exporter.Acceptance, dead *string) (changed int64, err error) {
	err = pgx.BeginFunc(ctx, c.store.pool, func(tx pgx.Tx) error {
		if changed, err = c.accept(ctx, tx, a, dead); err != nil || changed == 0 {
			return err
		}
		var b pgx.Batch
		for i := range a.DeadLetters {
			c.queueDeadLetter(&b, &a.DeadLetters[i])
		}
		if a.Lost != nil {
			b.Queue(c.store.sql(insertLoss), c.uid, c.row.batch, a.Lost.IDs.Lo, a.Lost.IDs.Hi, a.Lost.Count, storable(a.Lost.Reason))
		}
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("record dead letters and losses: %w", err)
		}
		return nil
	})
	return changed, err
}

func (c *Cursor) queueDeadLetter(b *pgx.Batch, d *exporter.DeadLetter) {
	e := &d.Event
	b.Queue(c.store.sql(insertDeadLetter), c.uid,
		e.ID, clean(e.RunID), e.Seq, clean(e.Type), e.Step, nullable(e.NodeID), nullable(e.ChannelID), nullable(e.TaskID),
		nullable(e.TenantID), nullable(e.GraphID), nullable(e.GraphHash), present(e.EncodedPayload), present(e.EncodedMetadata),
		timeOrNull(e.OccurredAt), timeOrNull(e.InsertedAt), e.Identity().Key(), c.row.batch, d.Class, storable(d.Reason), d.Attempts)
}

// The consumer's present name is read in the statement, since a rename may
// have come between.
const insertDeadLetter = `
INSERT INTO {dead_letters} (consumer_uid, consumer, event_id, run_id, seq, type, step, node_id, channel_id, task_id,
       tenant_id, graph_id, graph_hash, payload, metadata, occurred_at, inserted_at, idempotency_key, batch, class, reason, attempts)
SELECT c.uid, c.name, $2::bigint, $3::text, $4::bigint, $5::text, $6::integer, $7::text, $8::text, $9::text,
       $10::text, $11::text, $12::text, $13::bytea, $14::bytea, $15::timestamptz, $16::timestamptz, $17::text,
       $18::bigint, $19::text, $20::text, $21::integer
  FROM {consumers} c WHERE c.uid = $1::text::uuid
ON CONFLICT (consumer_uid, idempotency_key) DO NOTHING`

const insertLoss = `
INSERT INTO {losses} (consumer_uid, consumer, kind, batch, first_id, last_id, events, reason)
SELECT c.uid, c.name, 'delivery_unknown', $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::text
  FROM {consumers} c WHERE c.uid = $1::text::uuid`

func nullable(t exporter.Text) *string {
	if !t.Present {
		return nil
	}
	s := clean(t.Value)
	return &s
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// clean returns s as PostgreSQL takes it: valid UTF-8 without NUL. A database
// in SQL_ASCII may hold other texts.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// present keeps an empty value from being stored as NULL.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// storable returns the first maxReason characters of s as PostgreSQL takes them.
func storable(s string) string {
	s = clean(s)
	n := 0
	for i := range s {
		if n == maxReason {
			return s[:i]
		}
		n++
	}
	return s
}
