package cursor

import (
	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// row is what an owner believes of its consumer.
type row struct {
	uid             string
	epoch, revision int64
	position        exporter.Position
	batch           int64
	attempts        int
	intent          *exporter.Intent // nil when no batch is in flight
	owner, instance string
	pause           *Pause
}

// rowColumns are what scan reads, of {consumers} c.
const rowColumns = `
    c.uid::text, c.epoch, c.revision, c.high_id, c.holes::text, c.batch, c.attempts,
    c.intent_high, c.intent_holes::text, c.intent_events, c.intent_rows, encode(c.intent_hash, 'hex'),
    coalesce(c.owner, ''), coalesce(c.instance, ''), c.paused_reason, c.paused_detail, c.paused_by, c.paused_at`

func scanRow(from pgx.Row, more ...any) (row, error) {
	var r row
	var p storedPosition
	var in storedIntent
	var pause storedPause
	err := from.Scan(append([]any{
		&r.uid, &r.epoch, &r.revision, &p.high, &p.holes, &r.batch, &r.attempts,
		&in.high, &in.holes, &in.events, &in.rows, &in.hash,
		&r.owner, &r.instance, &pause.reason, &pause.detail, &pause.by, &pause.at,
	}, more...)...)
	if err != nil {
		return r, err
	}
	if r.position, err = p.value(); err != nil {
		return r, err
	}
	in.attempt = r.attempts
	if r.intent, err = in.value(r.batch); err != nil {
		return r, err
	}
	r.pause = pause.value()
	return r, nil
}

// scan makes the row from a claim the cursor's belief.
func (c *Cursor) scan(from pgx.Row, more ...any) (err error) {
	c.row, err = scanRow(from, more...)
	return err
}

// same reports whether r says what want says, whoever wrote it.
func (r *row) same(want *row) bool {
	return r.position.Equal(want.position) && r.batch == want.batch && r.attempts == want.attempts &&
		sameIntent(r.intent, want.intent)
}

func sameIntent(a, b *exporter.Intent) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Number == b.Number && a.Attempt == b.Attempt && a.To.Equal(b.To) &&
		a.Events == b.Events && a.Rows == b.Rows && a.Hash == b.Hash
}
