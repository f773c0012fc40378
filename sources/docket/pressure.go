package docket

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pressure is what Docket's database suffers from, as far as our role may see.
type Pressure struct {
	WaitingLocks int           // waiting requests for a lock on docket_events or docket_runs, whoever makes them
	ReplicaLag   time.Duration // of the slowest replica; 0 where there is none, or our role may not see it (pg_monitor)
}

// ReadPressure asks the server once.
func ReadPressure(ctx context.Context, pool *pgxpool.Pool, schema string) (Pressure, error) {
	var p Pressure
	var seconds float64
	err := pool.QueryRow(ctx, `
SELECT (SELECT count(*) FROM pg_catalog.pg_locks l
         WHERE NOT l.granted AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
           AND l.relation IN (to_regclass($1::text), to_regclass($2::text))),
       (SELECT coalesce(max(extract(epoch FROM greatest(r.replay_lag, r.flush_lag))), 0)::float8 FROM pg_catalog.pg_stat_replication r)`,
		quote(schema)+".docket_events", quote(schema)+".docket_runs").Scan(&p.WaitingLocks, &seconds)
	if err != nil {
		return p, fmt.Errorf("read the pressure on the Docket database: %w", err)
	}
	p.ReplicaLag = time.Duration(seconds * float64(time.Second))
	return p, nil
}
