package docket

import (
	"bytes"
	"cmp"
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
	// Event is as a batch would hold it, but for the columns of its run, where the
	// content was asked for and the filter keeps the row. Otherwise it has its
	// identity only.
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
		return t.run(ctx, s.scanStatement(ids, content, visit))
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "57014" {
		return fmt.Errorf("%w: %w", ErrScanTooLong, err)
	}
	return err
}

// ErrScanTooLong says that a scan took longer than a statement may.
var ErrScanTooLong = errors.New("the scan took too long")

// The last checkpoint of a run is told by its encoded metadata, whose map holds
// this key and this value side by side. What is searched begins with the key's
// length, a byte that is rare there.
const (
	checkpoint = "checkpoint_committed"
	terminal   = "\x10wake_disposition" + "m\x00\x00\x00\x08terminal"
)

var terminalCheckpoint = fmt.Sprintf(`e.type = '%s' AND position('\x%x'::bytea IN e.metadata) > 0`, checkpoint, terminal)

// scanColumns are those of a row with its content, up to payload and metadata.
const scanColumns = `e.id, e.run_id, e.seq, e.type, e.step, e.node_id, e.channel_id, e.task_id, e.occurred_at, e.inserted_at`

// scanStatement sends no more than is needed: with a filter each row ends with
// whether it is kept, and what its metadata would tell otherwise.
func (s *Source) scanStatement(ids exporter.Range, content bool, visit func(*Scanned) error) statement {
	condition, patterns := s.filters.condition(3)
	var columns string
	switch {
	case !content:
		columns = `e.id, e.run_id, e.seq, ` + cmp.Or(condition, "true") + `, ` + terminalCheckpoint
	case condition == "":
		columns = scanColumns + `, e.payload, e.metadata`
	default:
		columns = scanColumns + `, CASE WHEN ` + condition + ` THEN e.payload END, CASE WHEN ` + condition + ` THEN e.metadata END, ` +
			condition + `, CASE WHEN NOT (` + condition + `) THEN ` + terminalCheckpoint + ` END`
	}
	sql := `SELECT ` + columns + ` FROM ` + s.table.events + ` e`
	if !s.filters.Tenants.all() || !s.filters.Graphs.all() {
		sql += ` LEFT JOIN ` + s.table.runs + ` r ON r.run_id = e.run_id`
	}
	st := statement{
		sql:    sql + ` WHERE e.id BETWEEN $1::int8 AND $2::int8`,
		values: scanned(ids), types: []uint32{pgtype.Int8OID, pgtype.Int8OID},
	}
	for _, p := range patterns {
		st.values, st.types = append(st.values, []byte(p)), append(st.types, pgtype.TextArrayOID)
	}
	st.read = func(rr *pgconn.ResultReader) error {
		var row Scanned
		for rr.NextRow() {
			if err := s.scanRow(&row, rr.Values(), content); err != nil {
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

func (s *Source) scanRow(row *Scanned, v [][]byte, content bool) error {
	const payload, keep = 10, 12
	*row = Scanned{Kept: true}
	switch {
	case !content:
		row.Kept = boolAt(v[3])
	case len(v) > keep:
		row.Kept = boolAt(v[keep])
	}
	if !content || !row.Kept {
		row.Terminal = boolAt(v[len(v)-1])
		row.Event.ID, row.Event.RunID, row.Event.Seq = int8At(v[0]), string(v[1]), int8At(v[2])
		return nil
	}
	s.scanned.reset()
	rejection, err := s.decode(&row.Event, [][]byte{ // as in pageColumns
		v[0], nil, nil, v[1], v[2], v[3], v[4], v[5], v[6], v[7], nil, nil, nil, v[8], v[9], v[payload], v[payload+1],
	}, &s.scanned)
	if err != nil {
		return err
	}
	row.Poison = rejection != nil
	row.Terminal = row.Event.Type == checkpoint && bytes.Contains(v[payload+1], []byte(terminal))
	return nil
}

// RunColumns calls visit with the columns of those of the runs that exist, as
// an event that has its run's columns only. Asking for them once for each run
// costs the server a quarter of what joining them to each row does.
func (s *Source) RunColumns(ctx context.Context, ids []string, visit func(*exporter.Event)) error {
	found := make(runs, len(ids))
	for _, id := range ids {
		found[id] = &run{}
	}
	err := s.read(ctx, func(ctx context.Context, t *tx) error { return t.run(ctx, s.runsStatement(found)) })
	if err != nil {
		return fmt.Errorf("read %d runs: %w", len(ids), err)
	}
	for id, r := range found {
		if r.found {
			visit(&exporter.Event{RunID: id, TenantID: r.tenantID, GraphID: r.graphID, GraphHash: r.graphHash})
		}
	}
	return nil
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
