package docket

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// querier is a connection, a pool or a transaction of pgx.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// table names what the statements need of one Docket installation.
type table struct {
	schema   string
	events   string // quoted, schema-qualified
	runs     string
	sequence string // of events.id, quoted, as pg_get_serial_sequence resolves it
	oid      uint32
	seqOID   uint32
	version  string // the comment on docket_runs; empty when missing
}

// knownVersions are the schema versions of Docket's releases whose
// docket_events has the shape this package reads (0.1.0 to 0.3.0 need 2).
var knownVersions = []string{"2"}

// ErrNoTable says that the schema holds no docket_events.
var ErrNoTable = errors.New("no tables of Docket")

// The columns that are read, with the types they must have.
var (
	eventColumns = map[string]string{
		"id": "bigint", "run_id": "text", "seq": "bigint", "type": "text", "step": "integer",
		"node_id": "text", "channel_id": "text", "task_id": "text",
		"payload": "bytea", "metadata": "bytea",
		"occurred_at": "timestamp with time zone", "inserted_at": "timestamp with time zone",
	}
	runColumns = map[string]string{
		"run_id": "text", "tenant_id": "text", "graph_id": "text", "graph_hash": "text",
		"status": "text", "started_at": "timestamp with time zone", "updated_at": "timestamp with time zone",
	}
)

// Verify reports whether schema holds tables that this package can read: nil,
// ErrNoTable, or a *exporter.PauseError that says what is wrong with them.
func Verify(ctx context.Context, db querier, schema string) error {
	_, err := findTable(ctx, db, schema)
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// findTable resolves the names of a Docket schema and verifies the columns.
// It returns ErrNoTable, or a *exporter.PauseError for a shape it cannot read.
func findTable(ctx context.Context, db querier, schema string) (*table, error) {
	t := &table{schema: schema, events: quote(schema) + ".docket_events", runs: quote(schema) + ".docket_runs"}
	var sequence *string
	err := db.QueryRow(ctx, `
		SELECT e.oid, coalesce(obj_description(r.oid, 'pg_class'), ''),
		       pg_get_serial_sequence(e.oid::regclass::text, a.attname)
		FROM pg_namespace n
		JOIN pg_class e ON e.relnamespace = n.oid AND e.relname = 'docket_events'
		JOIN pg_class r ON r.relnamespace = n.oid AND r.relname = 'docket_runs'
		LEFT JOIN pg_attribute a ON a.attrelid = e.oid AND a.attname = 'id' AND NOT a.attisdropped
		WHERE n.nspname = $1`, schema).Scan(&t.oid, &t.version, &sequence)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("schema %q has no docket_events and docket_runs: run Docket's migrations, or set DOCKET_SCHEMA: %w", schema, ErrNoTable)
	}
	if err != nil {
		return nil, fmt.Errorf("find docket_events in schema %q: %w", schema, err)
	}
	for name, want := range map[string]map[string]string{"docket_events": eventColumns, "docket_runs": runColumns} {
		if err := verifyColumns(ctx, db, schema, name, want); err != nil {
			return nil, err
		}
	}
	if sequence == nil {
		return nil, &exporter.PauseError{Reason: exporter.PausedUnknownShape, Detail: fmt.Sprintf(
			"%s.id owns no sequence, so nothing shows which ids may still appear; restore it with ALTER SEQUENCE … OWNED BY %s.id", t.events, t.events)}
	}
	t.sequence = *sequence
	if err := db.QueryRow(ctx, `SELECT $1::regclass::oid`, t.sequence).Scan(&t.seqOID); err != nil {
		return nil, fmt.Errorf("find the id sequence %s: %w", t.sequence, err)
	}
	return t, nil
}

func verifyColumns(ctx context.Context, db querier, schema, relation string, want map[string]string) error {
	rows, err := db.Query(ctx, `
		SELECT a.attname, format_type(a.atttypid, -1)
		FROM pg_namespace n
		JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = $2
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE n.nspname = $1`, schema, relation)
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", relation, err)
	}
	have := map[string]string{}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error { have[name] = kind; return nil }); err != nil {
		return fmt.Errorf("read the columns of %s: %w", relation, err)
	}
	var wrong []string
	for column, kind := range want {
		got := strings.Replace(have[column], "character varying", "text", 1)
		switch got {
		case kind:
		case "":
			wrong = append(wrong, fmt.Sprintf("%s is missing", column))
		default:
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", column, have[column], kind))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	sort.Strings(wrong)
	return &exporter.PauseError{Reason: exporter.PausedUnknownShape, Detail: fmt.Sprintf(
		"%s.%s is not a table this version can read: %s; use an exporter that knows this Docket version",
		quote(schema), relation, strings.Join(wrong, ", "))}
}
