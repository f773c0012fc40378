package docket

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
)

// verify compares the marked row with the source: at the first read, and again
// when the server was restarted or promoted. Another row of its id, and one
// that is missing without an explanation, is a *exporter.PauseError. Where the
// mark is gone for a good reason, or there is none yet, another row at or below
// high becomes the mark.
func (s *Source) verify(ctx context.Context, t *tx, high int64, now time.Time) (*exporter.Mark, error) {
	if !s.unverified {
		return nil, nil
	}
	var fresh *exporter.Mark
	found, err := false, error(nil)
	if s.mark != nil {
		found, err = s.verifyMark(ctx, t, high, now)
	}
	if err == nil && !found {
		fresh, err = s.newMark(ctx, t, high)
	}
	if err != nil {
		return nil, err
	}
	s.unverified, s.promoted, s.mark = false, false, orMark(fresh, s.mark, found)
	return fresh, nil
}

func orMark(fresh, known *exporter.Mark, found bool) *exporter.Mark {
	if found {
		return known
	}
	return fresh
}

func (s *Source) verifyMark(ctx context.Context, t *tx, high int64, now time.Time) (found bool, err error) {
	var e *exporter.Event
	if err := t.run(ctx, s.markStatement(`WHERE e.id = $1::int8`, s.mark.EventID, &e)); err != nil {
		return false, err
	}
	if e == nil {
		return false, s.explainMissing(ctx, t, high, now)
	}
	if s.mark.Hash != contentHash(e, true) && s.mark.Hash != contentHash(e, false) {
		return false, changed("event %d was %s/%d, inserted %s, when it was read, and is %s/%d, inserted %s, now",
			s.mark.EventID, s.mark.RunID, s.mark.Seq, stamp(s.mark.InsertedAt), e.RunID, e.Seq, stamp(e.InsertedAt))
	}
	return true, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// slack is how much earlier than told an event may be gone without wonder:
// inserted_at may come from an application's clock.
func slack(retention time.Duration) time.Duration { return min(retention/10, time.Hour) }

// explainMissing says whether a row that was read may be gone. On a server that
// has not been promoted nothing is lost, so a run that was deleted and a pruner
// that keeps less than was told explain it, too.
func (s *Source) explainMissing(ctx context.Context, t *tx, high int64, now time.Time) error {
	age := now.Sub(s.mark.InsertedAt)
	if s.retention > 0 && age > s.retention-slack(s.retention) {
		return nil
	}
	what := fmt.Sprintf("event %d (%s/%d), inserted %s, was read and is gone, though younger than the retention",
		s.mark.EventID, s.mark.RunID, s.mark.Seq, stamp(s.mark.InsertedAt))
	if s.mark.EventID > high {
		what += fmt.Sprintf(", and the position has gone back to %d: ids up to %d may have been delivered", high, s.mark.EventID)
	}
	if s.promoted {
		return changed("%s: the server that was promoted to timeline %s lacks commits of the one before, or the run was deleted at the same time", what, s.seen.Timeline)
	}
	var runExists bool
	var oldest time.Time
	if err := t.run(ctx, s.fateStatement(&runExists, &oldest)); err != nil {
		return err
	}
	if runExists && !oldest.IsZero() && !oldest.After(s.mark.InsertedAt) {
		return changed("%s, and so is not its run: the table was restored or changed by hand", what)
	}
	return nil
}

// newMark takes the highest row at or below high.
func (s *Source) newMark(ctx context.Context, t *tx, high int64) (*exporter.Mark, error) {
	var e *exporter.Event
	if err := t.run(ctx, s.markStatement(`WHERE e.id <= $1::int8 ORDER BY e.id DESC LIMIT 1`, high, &e)); err != nil || e == nil {
		return nil, err
	}
	return &exporter.Mark{Identity: e.Identity(), Hash: contentHash(e, true), InsertedAt: e.InsertedAt}, nil
}

func (s *Source) markStatement(where string, id int64, into **exporter.Event) statement {
	return statement{
		sql: `SELECT e.id, e.run_id, e.seq, e.type, e.occurred_at, e.inserted_at, e.payload, e.metadata
			FROM ` + s.table.events + ` e ` + where,
		values: [][]byte{strconv.AppendInt(nil, id, 10)}, types: []uint32{pgtype.Int8OID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				*into = &exporter.Event{
					ID: int8At(v[0]), RunID: string(v[1]), Seq: int8At(v[2]), Type: string(v[3]),
					OccurredAt: finiteAt(v[4]), InsertedAt: finiteAt(v[5]),
					EncodedPayload: append([]byte(nil), v[6]...), EncodedMetadata: append([]byte(nil), v[7]...),
				}
			}
			_, err := rr.Close()
			return err
		},
	}
}

// fateStatement asks whether the marked row's run exists, and how far the
// pruner has come; oldest is zero for an empty table.
func (s *Source) fateStatement(runExists *bool, oldest *time.Time) statement {
	return statement{
		sql: `SELECT EXISTS (SELECT FROM ` + s.table.runs + ` WHERE run_id = $1::text),
			(SELECT inserted_at FROM ` + s.table.events + ` ORDER BY inserted_at, id LIMIT 1)`,
		values: [][]byte{[]byte(s.mark.RunID)}, types: []uint32{pgtype.TextOID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				*runExists = boolAt(v[0])
				if v[1] != nil {
					*oldest = finiteAt(v[1])
				}
			}
			_, err := rr.Close()
			return err
		},
	}
}
