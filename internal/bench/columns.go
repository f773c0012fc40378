package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sys/unix"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// columnsChild inserts the rows of a schema that it has read and decoded
// before, in batches as the exporter's, and prints the nanoseconds and the
// processor's nanoseconds that the inserts took:
//
//	columns URL DOCKET-SCHEMA DSN TABLE
func columnsChild(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) != 4 {
		return fmt.Errorf("the loop columns wants 4 words, not %q", args)
	}
	batches, err := readColumns(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	conn, err := openDriver(args[2])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("connect to ClickHouse: %w", err)
	}
	began, cpu := time.Now(), ownCPU()
	for _, b := range batches {
		if err := b.insert(ctx, conn, args[3]); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, time.Since(began).Nanoseconds(), (ownCPU() - cpu).Nanoseconds())
	return err
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails for a wrong address only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// columns are the rows of one batch, as the driver takes them.
type columns struct {
	runID, kind, payload, metadata                          []string
	seq, eventID                                            []int64
	step                                                    []int32
	nodeID, channelID, taskID, tenantID, graphID, graphHash texts
	occurredAt, insertedAt                                  []time.Time
}

const columnNames = "run_id, seq, event_id, type, step, node_id, channel_id, task_id, tenant_id, graph_id, graph_hash, " +
	"payload, metadata, occurred_at, inserted_at"

// readColumns reads a schema in the exporter's batches.
func readColumns(ctx context.Context, url, schema string) ([]*columns, error) {
	pools, err := openPools(ctx, url, 2)
	if err != nil {
		return nil, err
	}
	defer pools[0].Close()
	source := docket.New(pools[0], docket.Options{Schema: schema, Limits: insertLimits()})
	var at exporter.Position
	var batches []*columns
	for {
		b, err := source.Poll(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
		if len(b.Events) > 0 {
			c := &columns{}
			for i := range b.Events {
				c.add(&b.Events[i])
			}
			batches = append(batches, c)
		}
		if at = b.To; !b.More {
			return batches, nil
		}
	}
}

// add copies an event: the source uses its memory again.
func (c *columns) add(e *exporter.Event) {
	c.runID, c.kind = append(c.runID, strings.Clone(e.RunID)), append(c.kind, strings.Clone(e.Type))
	c.seq, c.eventID, c.step = append(c.seq, e.Seq), append(c.eventID, e.ID), append(c.step, e.Step)
	c.nodeID.add(e.NodeID)
	c.channelID.add(e.ChannelID)
	c.taskID.add(e.TaskID)
	c.tenantID.add(e.TenantID)
	c.graphID.add(e.GraphID)
	c.graphHash.add(e.GraphHash)
	c.payload, c.metadata = append(c.payload, string(e.Payload)), append(c.metadata, string(e.Metadata))
	c.occurredAt, c.insertedAt = append(c.occurredAt, e.OccurredAt), append(c.insertedAt, e.InsertedAt)
}

// texts is a column of texts that may be absent, in both forms that the driver
// has for it: a dictionary is keyed by what it is given, so it wants no
// pointers.
type texts struct {
	plain    []*string
	interned []any
}

func (t *texts) add(text exporter.Text) {
	if !text.Present {
		t.plain, t.interned = append(t.plain, nil), append(t.interned, nil)
		return
	}
	value := strings.Clone(text.Value)
	t.plain, t.interned = append(t.plain, &value), append(t.interned, value)
}

func (c *columns) insert(ctx context.Context, conn driver.Conn, table string) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+table+" ("+columnNames+")")
	if err != nil {
		return fmt.Errorf("begin insert: %w", err)
	}
	for i, values := range []any{
		c.runID, c.seq, c.eventID, c.kind, c.step, &c.nodeID, &c.channelID, &c.taskID, &c.tenantID, &c.graphID, &c.graphHash,
		c.payload, c.metadata, c.occurredAt, c.insertedAt,
	} {
		if t, ok := values.(*texts); ok {
			values = t.plain
			if strings.HasPrefix(string(batch.Columns()[i].Type()), "LowCardinality") {
				values = t.interned
			}
		}
		if err := batch.Column(i).Append(values); err != nil {
			return errors.Join(fmt.Errorf("append column %d: %w", i, err), batch.Abort())
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}
