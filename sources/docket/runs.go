package docket

import (
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
)

// runs are the run columns of a page's events. Asking for them once for each
// run costs the server a quarter of what joining them to each row does.
type runs map[string]*run

type run struct {
	found                        bool
	tenantID, graphID, graphHash exporter.Text
}

// missingRuns returns the runs whose columns the page was read without.
func (s *Source) missingRuns(b *exporter.Batch, p *page) runs {
	if !p.bare {
		return nil
	}
	missing := runs{}
	for i := range b.Events {
		if id := b.Events[i].RunID; missing[id] == nil {
			missing[id] = &run{}
		}
	}
	for i := range b.Poison {
		missing[b.Poison[i].Event.RunID] = &run{}
	}
	return missing
}

func (s *Source) runsStatement(missing runs) statement {
	ids := make([]string, 0, len(missing))
	for id := range missing {
		ids = append(ids, id)
	}
	return statement{
		sql: s.sql.runs, values: [][]byte{[]byte(textArray(ids))}, types: []uint32{pgtype.TextArrayOID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				if r := missing[string(v[0])]; r != nil {
					r.found = true
					r.tenantID, r.graphID, r.graphHash = textOf(v[1]), textOf(v[2]), textOf(v[3])
				}
			}
			_, err := rr.Close()
			return err
		},
	}
}

func textOf(b []byte) exporter.Text { return exporter.Text{Value: string(b), Present: b != nil} }

// fill gives the events their runs' columns. A run that is gone by now had its
// events deleted with it: errRunGone, and the page is read again with a join,
// which sees both in one snapshot.
func (m runs) fill(b *exporter.Batch) error {
	set := func(e *exporter.Event) bool {
		r := m[e.RunID]
		if r.found {
			e.TenantID, e.GraphID, e.GraphHash = r.tenantID, r.graphID, r.graphHash
		}
		return r.found
	}
	if len(m) == 0 {
		return nil
	}
	for i := range b.Events {
		if !set(&b.Events[i]) {
			return errRunGone
		}
	}
	for i := range b.Poison {
		if !set(&b.Poison[i].Event) {
			return errRunGone
		}
	}
	return nil
}
