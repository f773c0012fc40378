package cursor

import (
	"context"
	"fmt"
	"time"
)

// Replica is a process that runs consumers.
type Replica struct {
	Name      string
	Consumers []string // what it is configured to run
	Owns      []string // the consumers it owns that are not paused
}

// Roster is who runs what, as one statement saw it.
type Roster struct {
	Replicas []Replica // those that count
	Free     []string  // consumers that nobody owns and that are not paused
}

// Announce says that a process lives and which consumers it is configured to
// run. It counts for the time given, on the database's clock. This is only for
// sharing consumers fairly: who owns one is decided by Claim.
//
// It goes through the connection of the renewals, which nothing holds up.
func (s *Store) Announce(ctx context.Context, name string, consumers []string, counts time.Duration) error {
	_, err := s.renewals.Exec(ctx, s.sql(announce), name, consumers, counts.Seconds())
	resetReadOnly(s.renewals, err)
	if err != nil {
		return fmt.Errorf("announce replica %s: %w", name, err)
	}
	return nil
}

// What has not counted for a day is forgotten: container names never come again.
const announce = `
WITH old AS (DELETE FROM {replicas} WHERE seen_until < clock_timestamp() - interval '1 day' AND name <> $1::text)
INSERT INTO {replicas} AS r (name, seen_until, consumers)
VALUES ($1::text, clock_timestamp() + $3::float8 * interval '1 second', coalesce($2::text[], '{}'))
ON CONFLICT (name) DO UPDATE SET seen_until = excluded.seen_until, consumers = excluded.consumers`

// Withdraw says that a process claims nothing any more. It comes before its
// consumers are released, so that whoever sees them free does not wait for it.
func (s *Store) Withdraw(ctx context.Context, name string) error {
	_, err := s.renewals.Exec(ctx, s.sql(`DELETE FROM {replicas} WHERE name = $1::text`), name)
	if err != nil {
		return fmt.Errorf("withdraw replica %s: %w", name, err)
	}
	return nil
}

// Roster reads who runs what.
func (s *Store) Roster(ctx context.Context) (Roster, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var r Roster
	rows, err := s.pool.Query(ctx, s.sql(roster))
	if err != nil {
		return r, fmt.Errorf("read replicas: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name *string
		var x Replica
		if err := rows.Scan(&name, &x.Consumers, &x.Owns); err != nil {
			return r, fmt.Errorf("read replicas: %w", err)
		}
		if name == nil {
			r.Free = x.Owns
			continue
		}
		x.Name = *name
		r.Replicas = append(r.Replicas, x)
	}
	if err := rows.Err(); err != nil {
		return r, fmt.Errorf("read replicas: %w", err)
	}
	return r, nil
}

// One row for each replica that counts, and one without a name for what nobody owns.
const roster = `
SELECT r.name, r.consumers,
       coalesce((SELECT array_agg(c.name ORDER BY c.name) FROM {consumers} c
                  WHERE c.owner = r.name AND c.lease_until >= clock_timestamp() AND c.paused_at IS NULL), '{}')
  FROM {replicas} r WHERE r.seen_until >= clock_timestamp()
UNION ALL
SELECT NULL, '{}',
       coalesce((SELECT array_agg(c.name ORDER BY c.name) FROM {consumers} c
                  WHERE coalesce(c.lease_until < clock_timestamp(), true) AND c.paused_at IS NULL), '{}')
 ORDER BY 1`
