package docket

import (
	"context"
	"fmt"
)

// SystemIdentifier returns the system identifier of the server that db leads
// to: two clusters never share it unless one is a physical copy of the other.
// A standby is an error.
func SystemIdentifier(ctx context.Context, db querier) (int64, error) {
	var recovery bool
	var id int64
	err := db.QueryRow(ctx, `SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system())`).Scan(&recovery, &id)
	if err != nil {
		return 0, fmt.Errorf("read the system identifier: %w", err)
	}
	if recovery {
		return 0, errRecovery
	}
	return id, nil
}
