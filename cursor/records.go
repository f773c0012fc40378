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
// does neither.
func (c *Cursor) acceptWithRecords(ctx context.Context, a exporter.Acceptance, dead *string) (changed int64, err error) {
	err = pgx.BeginFunc(ctx, c.store.pool, func(tx pgx.Tx) error {
		if changed, err = c.accept(ctx, tx, a, dead); err != nil || changed == 0 {
			return err
		}
		if err := c.checkRate(ctx, tx, a.DeadLetters); err != nil {
			return err
		}
		var b pgx.Batch
		for i := range a.DeadLetters {
			if d := &a.DeadLetters[i]; d.Class != exporter.ClassHeld {
				c.queueDeadLetter(&b, d, StateOpen)
			}
		}
		for i := range a.Lost {
			if err := c.queueLoss(&b, &a.Lost[i]); err != nil {
				return err
			}
		}
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("record dead letters and losses: %w", deadLetterGrant(err))
		}
		return c.hold(ctx, tx, a.DeadLetters)
	})
	return changed, err
}

// deadLetterGrant names the privilege that is missing.
func deadLetterGrant(err error) error {
	if hasCode(err, insufficientPrivilege) {
		return fmt.Errorf("INSERT and UPDATE on dead_letters are not granted (exporter migrate --print-grants); the position stays until they are: %w", err)
	}
	return err
}

func (c *Cursor) queueDeadLetter(b *pgx.Batch, d *exporter.DeadLetter, state string) {
	e := &d.Event
	b.Queue(c.store.sql(insertDeadLetter), c.uid,
		e.ID, clean(e.RunID), e.Seq, clean(e.Type), e.Step, nullable(e.NodeID), nullable(e.ChannelID), nullable(e.TaskID),
		nullable(e.TenantID), nullable(e.GraphID), nullable(e.GraphHash), present(e.EncodedPayload), present(e.EncodedMetadata),
		timeOrNull(e.OccurredAt), timeOrNull(e.InsertedAt), e.Identity().Key(), c.row.batch, d.Class, storable(d.Reason), d.Attempts, state)
}

// The consumer's present name is read in the statement, since a rename may
// have come between. An event that is there already was passed before a person
// moved the position back: undecided it stays as it is, decided it is open again,
// as it is now: after a restore its identity may be that of another event.
// One that had expired begins to hold its run when it is refused now.
const insertDeadLetter = `
INSERT INTO {dead_letters} AS d (consumer_uid, consumer, event_id, run_id, seq, type, step, node_id, channel_id, task_id,
       tenant_id, graph_id, graph_hash, payload, metadata, occurred_at, inserted_at, idempotency_key, batch, class, reason, attempts, state)
SELECT c.uid, c.name, $2::bigint, $3::text, $4::bigint, $5::text, $6::integer, $7::text, $8::text, $9::text,
       $10::text, $11::text, $12::text, $13::bytea, $14::bytea, $15::timestamptz, $16::timestamptz, $17::text,
       $18::bigint, $19::text, $20::text, $21::integer, $22::text
  FROM {consumers} c WHERE c.uid = $1::text::uuid
ON CONFLICT (consumer_uid, idempotency_key) DO UPDATE
   SET type = excluded.type, step = excluded.step, node_id = excluded.node_id, channel_id = excluded.channel_id, task_id = excluded.task_id,
       tenant_id = excluded.tenant_id, graph_id = excluded.graph_id, graph_hash = excluded.graph_hash,
       payload = excluded.payload, metadata = excluded.metadata, occurred_at = excluded.occurred_at, inserted_at = excluded.inserted_at,
       batch = excluded.batch, class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
       state = excluded.state, first_at = excluded.first_at, last_error = NULL, claimed_by = NULL, claimed_until = NULL, changed_at = clock_timestamp()
 WHERE d.state NOT IN ('open', 'held') OR d.class = 'expired' AND excluded.class <> 'expired'`

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
