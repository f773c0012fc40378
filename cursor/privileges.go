package cursor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// MissingPrivileges returns what the connection's role may not do to the
// exporter's tables although an owner of consumers does it, such as
// "UPDATE on consumers".
func MissingPrivileges(ctx context.Context, conn *pgx.Conn, schema string) ([]string, error) {
	rows, err := conn.Query(ctx, missingPrivileges, schema)
	if err != nil {
		return nil, fmt.Errorf("read privileges: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read privileges: %w", err)
	}
	return missing, nil
}

const missingPrivileges = `
SELECT w.privilege || ' on ' || w.name
  FROM (VALUES ('consumers', 'SELECT'), ('consumers', 'INSERT'), ('consumers', 'UPDATE'),
               ('dead_letters', 'SELECT'), ('dead_letters', 'INSERT'), ('dead_letters', 'UPDATE'),
               ('losses', 'SELECT'), ('losses', 'INSERT'),
               ('replicas', 'SELECT'), ('replicas', 'INSERT'), ('replicas', 'UPDATE'), ('replicas', 'DELETE'),
               ('source', 'SELECT'), ('source', 'INSERT'), ('audit', 'SELECT'), ('audit', 'INSERT')) AS w (name, privilege)
  LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1::text) ON c.relname = w.name
 WHERE NOT coalesce(has_table_privilege(c.oid, w.privilege), false)`
