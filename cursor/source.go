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

// BindSource records at its first call which Docket this schema belongs to:
// Docket's schema name and the system identifier of its server as
// pg_control_system() shows it. A later call with another schema or system
// identifier is a *exporter.PauseError with reason PausedSourceChanged that
// names both.
func (s *Store) BindSource(ctx context.Context, docketSchema string, systemID int64) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, s.sql(insertSource), docketSchema, systemID)
	if err != nil {
		return fmt.Errorf("record source: %w", err)
	}
	return s.CheckSource(ctx, docketSchema, systemID)
}

// CheckSource compares like BindSource and records nothing: a schema that
// belongs to no Docket yet is fine.
func (s *Store) CheckSource(ctx context.Context, docketSchema string, systemID int64) error {
	bound, err := s.Source(ctx)
	if err != nil || bound == nil {
		return err
	}
	if err := bound.checkSchema(docketSchema); err != nil {
		return err
	}
	if bound.System != systemID {
		return &exporter.PauseError{
			Reason: exporter.PausedSourceChanged,
			Detail: fmt.Sprintf("Docket's server has system identifier %d, the positions kept here belong to %d: it was restored, replaced or upgraded, or DOCKET_DATABASE_URL points elsewhere; "+
				"`exporter source show` compares it with what was read, `exporter source adopt` makes it the known one", systemID, bound.System),
		}
	}
	return nil
}

// CheckSchema compares only Docket's schema name, for which Docket's database
// need not be read: its error is that of BindSource.
func (s *Store) CheckSchema(ctx context.Context, docketSchema string) error {
	bound, err := s.Source(ctx)
	if err != nil || bound == nil {
		return err
	}
	return bound.checkSchema(docketSchema)
}

func (b *Bound) checkSchema(docketSchema string) error {
	if b.DocketSchema == docketSchema {
		return nil
	}
	return &exporter.PauseError{
		Reason: exporter.PausedSourceChanged,
		Detail: fmt.Sprintf("the exporter's schema belongs to Docket's schema %q, not to %q: correct DOCKET_SCHEMA, or set EXPORT_SCHEMA to another schema for it",
			b.DocketSchema, docketSchema),
	}
}

const insertSource = `
INSERT INTO {source} (docket_schema, system_identifier) VALUES ($1::text, $2::bigint)
ON CONFLICT (one) DO NOTHING`

// Bound is the Docket that the positions belong to.
type Bound struct {
	DocketSchema string
	System       int64 // system identifier of its server
	At           time.Time
}

// Source returns the Docket that the positions belong to; nil before the first
// BindSource.
func (s *Store) Source(ctx context.Context) (*Bound, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var b Bound
	err := s.pool.QueryRow(ctx, s.sql("SELECT docket_schema, system_identifier, bound_at FROM {source}")).Scan(&b.DocketSchema, &b.System, &b.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	return &b, nil
}

// Seen is a source as a consumer last read it: see docket.Seen.
type Seen struct {
	System   int64  `json:"system,string"`
	Timeline string `json:"timeline"`
	Table    uint32 `json:"table"`
	Sequence uint32 `json:"sequence"`
	WAL      int64  `json:"wal"`
}

// stored is the column source_seen; nil leaves it as it is.
func (s *Seen) stored() (*string, error) {
	if s == nil {
		return nil, nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	value := string(text)
	return &value, nil
}

// SeenBy returns the source as the consumer last read it, nil when it has read
// nothing since it was made or since the source was adopted, and the ids it
// remembers as dead.
func (s *Store) SeenBy(ctx context.Context, consumer string) (*Seen, exporter.Ranges, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var text *string
	var dead string
	err := s.pool.QueryRow(ctx, s.sql("SELECT source_seen::text, dead::text FROM {consumers} WHERE name = $1::text"), consumer).Scan(&text, &dead)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the source seen by %s: %w", consumer, err)
	}
	ids, err := exporter.ParseRanges(dead)
	if err != nil || text == nil {
		return nil, ids, err
	}
	var seen Seen
	if err := json.Unmarshal([]byte(*text), &seen); err != nil {
		return nil, nil, fmt.Errorf("read the source seen by %s: %w", consumer, err)
	}
	return &seen, ids, nil
}
