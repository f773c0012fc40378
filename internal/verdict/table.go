package verdict

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// Row is what an event's row says about who it is and who wants it. Tenant is
// empty for a run without one.
type Row struct {
	exporter.Identity
	Type, Tenant, Graph string
}

// Queryer is a connection, pool or transaction of pgx.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Table returns the committed events of a Docket schema in the order of their
// ids. keep leaves out those that a consumer's filter leaves out; nil keeps all.
func Table(ctx context.Context, db Queryer, schema string, keep func(Row) bool) ([]Row, error) {
	in := pgx.Identifier{schema}.Sanitize()
	rows, err := db.Query(ctx, `
SELECT e.run_id, e.seq, e.id, e.type, coalesce(r.tenant_id, ''), coalesce(r.graph_id, '')
  FROM `+in+`.docket_events e LEFT JOIN `+in+`.docket_runs r USING (run_id)
 ORDER BY e.id`)
	if err != nil {
		return nil, fmt.Errorf("read events of schema %s: %w", schema, err)
	}
	defer rows.Close()
	var all []Row
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.RunID, &r.Seq, &r.EventID, &r.Type, &r.Tenant, &r.Graph); err != nil {
			return nil, fmt.Errorf("read events of schema %s: %w", schema, err)
		}
		if keep == nil || keep(r) {
			all = append(all, r)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events of schema %s: %w", schema, err)
	}
	return all, nil
}
