package cursor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
)

// statementTimeout bounds each call on the database, so that a connection that
// died without a word costs one attempt.
const statementTimeout = 10 * time.Second

// Store is the exporter's schema. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	renewals *pgxpool.Pool
	names    *strings.Replacer

	instance string      // of this process, or of this part of it
	owned    sync.Map    // names of consumers that it has owned
	shared   atomic.Bool // another process has owned one of them under our name

	// longTransaction is the age from which an open transaction slows writes
	// down: see Cursor.pace.
	longTransaction time.Duration
}

// NewStore uses the tables that migrations.Apply made in schema. Leases are
// renewed through renewals, a pool of one or two connections of its own, so
// that a busy pool cannot starve them; nil takes pool for both.
func NewStore(pool, renewals *pgxpool.Pool, schema string) *Store {
	if renewals == nil {
		renewals = pool
	}
	return &Store{pool: pool, renewals: renewals, names: tables(schema), instance: rand.Text(), longTransaction: time.Minute}
}

// NameIsShared reports whether another process has owned a consumer of this one
// under its name.
func (s *Store) NameIsShared() bool { return s.shared.Load() }

// resetReadOnly looks at every error of the database. One that takes no writes may
// be a standby to which an address led for a while: the pool connects anew.
func resetReadOnly(pool *pgxpool.Pool, err error) {
	if hasCode(err, "25006") {
		pool.Reset()
	}
}

// sql fills the quoted table names into a statement.
func (s *Store) sql(text string) string { return s.names.Replace(text) }

// Kinds of consumers.
const (
	Live     = "live"     // follows Docket for ever
	Backfill = "backfill" // ends at a known position
)

// Consumer is what Create makes.
type Consumer struct {
	Name     string // [a-z][a-z0-9_]*
	Kind     string // Live or Backfill; empty is Live
	Position exporter.Position
	By       string // for the audit: who asked for it, and why
	Reason   string
}

// Create makes a consumer that does not exist yet. It changes nothing and
// returns false when it does, also when its position is another.
func (s *Store) Create(ctx context.Context, c Consumer) (created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if c.Kind == "" {
		c.Kind = Live
	}
	tag, err := s.pool.Exec(ctx, s.sql(insertConsumer),
		c.Name, c.Kind, c.Position.High, c.Position.Holes.String(), c.By, c.Reason)
	if err != nil {
		return false, fmt.Errorf("create consumer %s: %w", c.Name, nameError(c.Name, err))
	}
	return tag.RowsAffected() == 1, nil
}

const insertConsumer = `
WITH made AS (
    INSERT INTO {consumers} AS c (name, kind, high_id, holes)
    VALUES ($1::text, $2::text, $3::bigint, $4::text::int8multirange)
    ON CONFLICT (name) DO NOTHING
    RETURNING c.*)
INSERT INTO {audit} (who, command, consumer, reason, after)
SELECT $5::text, 'create', made.name, $6::text, to_jsonb(made) - 'dead' FROM made`
