package docket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
)

// Scanned is a row as Scan sees it. It is valid until the next one.
type Scanned struct {
	// Event is as a batch would hold it where the content was asked for and the
	// filter keeps the row. Otherwise it has its identity only.
	Event    exporter.Event
	Kept     bool // the filter keeps it
	Poison   bool // no sink can be given it
	Terminal bool // the checkpoint with which its run ended
}

// Scan calls visit for each visible row within ids, in no order, and holds one
// row in memory at a time. It is one transaction, and reads nothing from a
// source that is not the known one. An error of visit ends it.
//
// A scan that takes longer than StatementTimeout is ErrScanTooLong: ask for
// fewer ids.
func (s *Source) Scan(ctx context.Context, ids exporter.Range, at exporter.Position, content bool, visit func(*Scanned) error) error {
	err := s.read(ctx, func(ctx context.Context, t *tx) error {
		var around surroundings
		if err := t.run(ctx, s.table.surroundingsStatement(&around)); err != nil {
			return err
		}
		if err := s.enter(around, at); err != nil {
			return err
		}
		if _, err := s.verify(ctx, t, at.High, around.now); err != nil {
			return err
		}
		joined := !s.filters.Tenants.all() || !s.filters.Graphs.all()
		var ask []statement
		found := runs{}
		if content && !joined {
			ask = append(ask, s.scanRunsStatement(ids, found))
		}
		return t.run(ctx, append(ask, s.scanStatement(ids, content, joined, found, visit))...)
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "57014" {
		return fmt.Errorf("%w: %w", ErrScanTooLong, err)
	}
	return err
}

// ErrScanTooLong says that a scan took longer than a statement may.
var ErrScanTooLong = errors.New("the scan took too long")

// The last checkpoint of a run is told by its encoded metadata, whose map holds
// this key and this value side by side.
const (
	checkpoint = "checkpoint_committed"
	terminal   = "m\x00\x00\x00\x10wake_disposition" + "m\x00\x00\x00\x08terminal"
)

var terminalCheckpoint = fmt.Sprintf(`e.type = '%s' AND position('\x%x'::bytea IN e.metadata) > 0`, checkpoint, terminal)

func (s *Source) scanStatement(ids exporter.Range, content, joined bool, found runs, visit func(*Scanned) error) statement {
	condition, patterns := s.filters.condition(3)
	if condition == "" {
		condition = "true"
	}
	columns, join := `NULL::text AS tenant_id, NULL::text AS graph_id, NULL::text AS graph_hash`, ""
	if joined {
		columns, join = `r.tenant_id, r.graph_id, r.graph_hash`, ` LEFT JOIN `+s.table.runs+` r ON r.run_id = e.run_id`
	}
	sql := `SELECT e.id, e.run_id, e.seq, ` + condition + `, ` + terminalCheckpoint
	if content {
		sql = `SELECT p.id, true, p.keep, p.run_id, p.seq, p.type, p.step, p.node_id, p.channel_id, p.task_id,
			p.tenant_id, p.graph_id, p.graph_hash, p.occurred_at, p.inserted_at,
			CASE WHEN p.keep THEN p.payload END, CASE WHEN p.keep THEN p.metadata END, p.terminal
			FROM (SELECT e.*, ` + condition + ` AS keep, ` + columns + `, CASE WHEN NOT (` + condition + `) THEN ` + terminalCheckpoint + ` END AS terminal`
	}
	sql += ` FROM ` + s.table.events + ` e` + join + ` WHERE e.id BETWEEN $1::int8 AND $2::int8`
	if content {
		sql += `) p`
	}
	st := statement{sql: sql, values: scanned(ids), types: []uint32{pgtype.Int8OID, pgtype.Int8OID}}
	for _, p := range patterns {
		st.values, st.types = append(st.values, []byte(p)), append(st.types, pgtype.TextArrayOID)
	}
	st.read = func(rr *pgconn.ResultReader) error {
		var row Scanned
		for rr.NextRow() {
			if err := s.scanRow(&row, rr.Values(), content, joined, found); err != nil {
				_, _ = rr.Close()
				return err
			}
			if err := visit(&row); err != nil {
				_, _ = rr.Close()
				return err
			}
		}
		_, err := rr.Close()
		return err
	}
	return st
}

func scanned(ids exporter.Range) [][]byte {
	return [][]byte{strconv.AppendInt(nil, ids.Lo, 10), strconv.AppendInt(nil, ids.Hi, 10)}
}

func (s *Source) scanRow(row *Scanned, v [][]byte, content, joined bool, found runs) error {
	run, seq, keep := 1, 2, 3
	if content {
		keep, run, seq = 2, 3, 4
	}
	*row = Scanned{Kept: boolAt(v[keep])}
	if !content || !row.Kept {
		row.Terminal = boolAt(v[len(v)-1])
		row.Event.ID, row.Event.RunID, row.Event.Seq = int8At(v[0]), string(v[run]), int8At(v[seq])
		return nil
	}
	s.scanned.reset()
	rejection, err := s.decode(&row.Event, v, &s.scanned)
	if err != nil {
		return err
	}
	row.Poison = rejection != nil
	row.Terminal = row.Event.Type == checkpoint && bytes.Contains(v[16], []byte(terminal))
	if r := found[row.Event.RunID]; r != nil && !joined {
		row.Event.TenantID, row.Event.GraphID, row.Event.GraphHash = r.tenantID, r.graphID, r.graphHash
	}
	return nil
}

// scanRunsStatement reads the run columns of the rows within ids, once for each
// run. It comes before the rows: then a run that is missing has been deleted,
// and its rows with it.
func (s *Source) scanRunsStatement(ids exporter.Range, into runs) statement {
	return statement{
		sql: `SELECT run_id, tenant_id, graph_id, graph_hash FROM ` + s.table.runs + `
			WHERE run_id = ANY (ARRAY(SELECT DISTINCT e.run_id FROM ` + s.table.events + ` e WHERE e.id BETWEEN $1::int8 AND $2::int8))`,
		values: scanned(ids), types: []uint32{pgtype.Int8OID, pgtype.Int8OID},
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				v := rr.Values()
				into[string(v[0])] = &run{true, textOf(v[1]), textOf(v[2]), textOf(v[3])}
			}
			_, err := rr.Close()
			return err
		},
	}
}

// NextID returns the lowest visible id within ids; found is false when there is none.
func (s *Source) NextID(ctx context.Context, ids exporter.Range) (id int64, found bool, err error) {
	err = s.read(ctx, func(ctx context.Context, t *tx) error {
		return t.run(ctx, statement{
			sql:    `SELECT e.id FROM ` + s.table.events + ` e WHERE e.id BETWEEN $1::int8 AND $2::int8 ORDER BY e.id LIMIT 1`,
			values: scanned(ids), types: []uint32{pgtype.Int8OID, pgtype.Int8OID},
			read: func(rr *pgconn.ResultReader) error {
				for rr.NextRow() {
					id, found = int8At(rr.Values()[0]), true
				}
				_, err := rr.Close()
				return err
			},
		})
	})
	return id, found, err
}
