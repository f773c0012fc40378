package cursor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// Adoption is a person's word that a source which is not what it was is the
// right one.
type Adoption struct {
	System    int64     // system identifier of its server
	Consumers []Adopter // that take it as it is from now on
	By        string    // for the audit: who asked for it, and why
	Reason    string
}

// Adopter is a consumer that takes a source as it is.
type Adopter struct {
	Name     string
	RewindTo *exporter.Position // where it goes on; nil leaves it where it is
}

// Adopt makes a source the known one in one transaction. Its server's
// identifier replaces the one before. Each of the consumers forgets the row and
// the server by which it knew the source and the batch in flight, is moved when
// that is asked for, and may go on when it was paused because the source had
// changed. Epoch and batch number are raised as by Set: nothing a present owner
// does counts any more, and no batch has the number of one that held other
// events. Ids remembered as dead are forgotten: they may be others' now. Every
// change is audited.
func (s *Store) Adopt(ctx context.Context, a Adoption) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql(adoptSource), a.By, "source adopt", a.Reason, a.System); err != nil {
			return fmt.Errorf("adopt source: %w", err)
		}
		for _, c := range a.Consumers {
			if err := s.adoptFor(ctx, tx, c, a); err != nil {
				return fmt.Errorf("adopt source for consumer %s: %w", c.Name, err)
			}
		}
		return nil
	})
	resetReadOnly(s.pool, err)
	return err
}

func (s *Store) adoptFor(ctx context.Context, tx pgx.Tx, c Adopter, a Adoption) error {
	var high *int64
	var holes *string
	if c.RewindTo != nil {
		text := c.RewindTo.Holes.String()
		high, holes = &c.RewindTo.High, &text
	}
	tag, err := tx.Exec(ctx, s.sql(adoptConsumer), a.By, "source adopt", a.Reason, c.Name, high, holes)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	return err
}

const adoptSource = `
WITH before AS (SELECT s.* FROM {source} s FOR UPDATE),
     after AS (UPDATE {source} s SET system_identifier = $4::bigint, bound_at = clock_timestamp() FROM before RETURNING s.*)
INSERT INTO {audit} (who, command, reason, before, after)
SELECT $1::text, $2::text, $3::text, to_jsonb(before), to_jsonb(after) FROM before, after`

var adoptConsumer = audited(
	`c.name = $4::text`,
	`epoch = c.epoch + 1, revision = c.revision + 1, batch = c.batch + 1, attempts = 0,
     high_id = coalesce($5::bigint, c.high_id), holes = coalesce($6::text::int8multirange, c.holes),
     dead = '{}',
     intent_high = NULL, intent_holes = NULL, intent_events = NULL, intent_rows = NULL, intent_hash = NULL, begun_at = NULL,
     mark_event_id = NULL, mark_run_id = NULL, mark_seq = NULL, mark_hash = NULL, mark_at = NULL, source_seen = NULL,
     read_at = CASE WHEN $5::bigint IS NULL THEN c.read_at END,
     caught_up_at = CASE WHEN $5::bigint IS NULL THEN c.caught_up_at END,
     paused_at = CASE WHEN c.paused_reason = '`+exporter.PausedSourceChanged+`' THEN NULL ELSE c.paused_at END,
     paused_by = CASE WHEN c.paused_reason = '`+exporter.PausedSourceChanged+`' THEN NULL ELSE c.paused_by END,
     paused_detail = CASE WHEN c.paused_reason = '`+exporter.PausedSourceChanged+`' THEN NULL ELSE c.paused_detail END,
     paused_reason = nullif(c.paused_reason, '`+exporter.PausedSourceChanged+`')`,
)

// DeadLettersAbove returns how many undecided dead letters of a consumer, by
// its uid, hold events with ids above id.
func (s *Store) DeadLettersAbove(ctx context.Context, uid string, id int64) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, s.sql(`SELECT count(*) FROM {dead_letters}
		WHERE consumer_uid = $1::text::uuid AND state IN ('open', 'held') AND event_id > $2::bigint`), uid, id).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}
