package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// story is a run as a sequence of transitions, each of which is committed by
// itself.
type story struct {
	tenant             pgtype.Text
	graphID, graphHash string
	transitions        []transition
}

// transition is the events of one commit as columns.
type transition struct {
	seq                 []int64
	kind                []string
	step                []int32
	node, channel, task []pgtype.Text
	payload, metadata   [][]byte
}

// readSample reads the runs of a schema, cut where a checkpoint ended a
// transition.
func readSample(ctx context.Context, pool *pgxpool.Pool, schema string) ([]story, error) {
	events, runs := pgx.Identifier{schema, "docket_events"}.Sanitize(), pgx.Identifier{schema, "docket_runs"}.Sanitize()
	rows, err := pool.Query(ctx, `SELECT e.seq, e.type, e.step, e.node_id, e.channel_id, e.task_id, e.payload, e.metadata,
		r.tenant_id, r.graph_id, r.graph_hash
		FROM `+events+` e JOIN `+runs+` r USING (run_id) ORDER BY e.run_id, e.seq`)
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	defer rows.Close()
	var stories []story
	fresh := true
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.Seq, &r.Type, &r.Step, &r.NodeID, &r.ChannelID, &r.TaskID, &r.Payload, &r.Metadata,
			&r.TenantID, &r.GraphID, &r.GraphHash); err != nil {
			return nil, fmt.Errorf("read sample: %w", err)
		}
		if r.Seq == 1 {
			stories = append(stories, story{tenant: r.TenantID, graphID: r.GraphID.String, graphHash: r.GraphHash.String})
			fresh = true
		}
		s := &stories[len(stories)-1]
		if fresh {
			s.transitions = append(s.transitions, transition{})
		}
		s.transitions[len(s.transitions)-1].add(&r)
		fresh = r.Type == "checkpoint_committed"
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	return stories, nil
}

func (t *transition) add(r *row) {
	t.seq, t.kind, t.step = append(t.seq, r.Seq), append(t.kind, r.Type), append(t.step, r.Step)
	t.node, t.channel, t.task = append(t.node, r.NodeID), append(t.channel, r.ChannelID), append(t.task, r.TaskID)
	t.payload, t.metadata = append(t.payload, r.Payload), append(t.metadata, r.Metadata)
}
