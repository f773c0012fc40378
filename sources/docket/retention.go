package docket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// CheckRetention compares the retention that was told with the table, because
// only Docket's configuration knows the real one. A retention of 0 means that
// no pruner runs. Its error says that the connection failed.
func CheckRetention(ctx context.Context, conn *pgx.Conn, schema string, retention time.Duration) ([]Finding, error) {
	if retention <= 0 {
		return []Finding{ok("RETENTION_EVENTS is none: events are taken as kept for ever")}, nil
	}
	events := quote(schema) + ".docket_events"
	var oldest, now time.Time
	var lowest int64
	err := conn.QueryRow(ctx, `
		SELECT inserted_at, clock_timestamp(), (SELECT min(id) FROM `+events+`)
		FROM `+events+` ORDER BY inserted_at, id LIMIT 1`).Scan(&oldest, &now, &lowest)
	if errors.Is(err, pgx.ErrNoRows) {
		return []Finding{ok(fmt.Sprintf("%s is empty: nothing to compare RETENTION_EVENTS (%v) with", events, retention))}, nil
	}
	if err != nil {
		return refused(conn, err, "read the oldest event of "+events)
	}
	return []Finding{judgeRetention(retention, now.Sub(oldest), lowest)}, nil
}

// judgeRetention compares the told retention with the age of the oldest event.
// The pruner works in small batches, so events outlive the retention a little.
func judgeRetention(retention, oldest time.Duration, lowestID int64) Finding {
	oldest = max(oldest, 0).Truncate(time.Second)
	slack := max(time.Hour, retention/10)
	switch {
	case oldest > retention+slack:
		return Finding{
			Warn, fmt.Sprintf("RETENTION_EVENTS is %v, but the oldest event is %v old", retention, oldest),
			"set RETENTION_EVENTS to Docket's event_retention (none when no pruner runs), or see why the pruner is behind",
		}
	case oldest < retention/2 && lowestID > 1:
		return Finding{
			Warn, fmt.Sprintf("RETENTION_EVENTS is %v, but the oldest event is only %v old and those below id %d are gone", retention, oldest, lowestID),
			"set RETENTION_EVENTS to Docket's event_retention: if that is shorter, warnings of loss come too late",
		}
	}
	return ok(fmt.Sprintf("RETENTION_EVENTS is %v; the oldest event is %v old", retention, oldest))
}
