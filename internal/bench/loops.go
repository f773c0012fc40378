package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// child runs one of the loops that the exporter is compared with:
//
//	scan|scan-join|scan-json URL SCHEMA [FILE]
//
// It prints the number of rows.
func child(ctx context.Context, args []string, out io.Writer) error {
	switch args[0] {
	case "pipeline":
		return pipelineChild(ctx, args[1:], out)
	case "columns":
		return columnsChild(ctx, args[1:], out)
	case "pubsub-server":
		return pubsubChild(ctx, args[1:], out)
	}
	if len(args) < 3 {
		return fmt.Errorf("unknown words %q: the bench is started without any", args)
	}
	conn, err := pgx.Connect(ctx, args[1])
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // it has read only
	var n int
	switch kind := args[0]; {
	case kind == "scan":
		n, err = scan(ctx, conn, scanSQL(args[2], false), nil)
	case kind == "scan-join":
		n, err = scan(ctx, conn, scanSQL(args[2], true), nil)
	case kind == "scan-json" && len(args) == 4:
		n, err = scanToFile(ctx, conn, scanSQL(args[2], true), args[3])
	default:
		err = fmt.Errorf("unknown loop %q", kind)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, n)
	return err
}

// row is one event as the loops scan it.
type row struct {
	ID         int64       `json:"event_id"`
	RunID      string      `json:"run_id"`
	Seq        int64       `json:"seq"`
	Type       string      `json:"type"`
	Step       int32       `json:"step"`
	NodeID     pgtype.Text `json:"node_id"`
	ChannelID  pgtype.Text `json:"channel_id"`
	TaskID     pgtype.Text `json:"task_id"`
	Payload    []byte      `json:"payload"`
	Metadata   []byte      `json:"metadata"`
	OccurredAt time.Time   `json:"occurred_at"`
	InsertedAt time.Time   `json:"inserted_at"`
	TenantID   pgtype.Text `json:"tenant_id"`
	GraphID    pgtype.Text `json:"graph_id"`
	GraphHash  pgtype.Text `json:"graph_hash"`
}

// scanSQL selects the columns that the exporter reads.
func scanSQL(schema string, join bool) string {
	events, runs := pgx.Identifier{schema, "docket_events"}.Sanitize(), pgx.Identifier{schema, "docket_runs"}.Sanitize()
	const columns = "e.id, e.run_id, e.seq, e.type, e.step, e.node_id, e.channel_id, e.task_id, e.payload, e.metadata, e.occurred_at, e.inserted_at"
	if !join {
		return "SELECT " + columns + ", NULL, NULL, NULL FROM " + events + " e ORDER BY e.id"
	}
	return "SELECT " + columns + ", r.tenant_id, r.graph_id, r.graph_hash FROM " + events + " e LEFT JOIN " + runs + " r USING (run_id) ORDER BY e.id"
}

// scan is the bare loop: each row into Go values, one after the other.
func scan(ctx context.Context, conn *pgx.Conn, sql string, each func(*row) error) (n int, err error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return 0, fmt.Errorf("scan: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.ID, &r.RunID, &r.Seq, &r.Type, &r.Step, &r.NodeID, &r.ChannelID, &r.TaskID, &r.Payload,
			&r.Metadata, &r.OccurredAt, &r.InsertedAt, &r.TenantID, &r.GraphID, &r.GraphHash); err != nil {
			return n, fmt.Errorf("scan: %w", err)
		}
		if each != nil {
			if err := each(&r); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, rows.Err()
}

// scanToFile is the plain loop that one writes first: encoding/json into a
// buffered file. It neither decodes the payload nor syncs.
func scanToFile(ctx context.Context, conn *pgx.Conn, sql, path string) (n int, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("scan to file: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	n, err = scan(ctx, conn, sql, func(r *row) error {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(append(line, '\n'))
		return err
	})
	return n, errors.Join(err, w.Flush(), f.Close())
}
