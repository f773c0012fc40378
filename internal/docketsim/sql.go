package docketsim

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the writer's SQL for one schema.
type statements struct {
	insertRun, updateRun, appendEvents, advance, notify string
}

func statementsFor(schema string) statements {
	in := func(sql string) string {
		return strings.ReplaceAll(sql, "$schema", pgx.Identifier{schema}.Sanitize())
	}
	return statements{
		insertRun: in(insertRunSQL), updateRun: in(updateRunSQL),
		appendEvents: in(appendEventsSQL), advance: in(advanceSQL),
		notify: "SELECT pg_notify('docket_wake', $1)",
	}
}

// The run row's claim follows its state: a worker keeps its claim while it
// goes on, a run that is due has a wake-up time, anything else has neither.
const (
	insertRunSQL = `
INSERT INTO $schema.docket_runs (run_id, tenant_id, graph_id, graph_hash, state, status, step, checkpoint_seq,
	latest_checkpoint_type, wake_at, inserted_at, started_at, updated_at, finished_at)
VALUES ($1, NULLIF($2, ''), $3, $4, $5, $6, $7, $8, $9, $10, $10, $10, $10, NULL)`

	updateRunSQL = `
UPDATE $schema.docket_runs
SET status = $3, step = $4, checkpoint_seq = checkpoint_seq + 1, latest_checkpoint_type = $5, updated_at = $6,
	claim_token = CASE WHEN $7 = 'continue' THEN COALESCE(claim_token, gen_random_uuid()) END,
	claimed_at = CASE WHEN $7 = 'continue' THEN COALESCE(claimed_at, $6) END,
	wake_at = CASE WHEN $7 IN ('immediate', 'at') THEN $6 END,
	finished_at = CASE WHEN $7 = 'terminal' THEN $6 END
WHERE run_id = $1 AND checkpoint_seq = $2`

	// appendEventsSQL takes the application's clock for inserted_at and lets
	// events be appended again.
	appendEventsSQL = `
INSERT INTO $schema.docket_events (run_id, seq, type, step, node_id, channel_id, task_id, payload, metadata, occurred_at, inserted_at)
SELECT $1, e.seq, e.type, e.step, NULLIF(e.node_id, ''), NULLIF(e.channel_id, ''), NULLIF(e.task_id, ''), e.payload, e.metadata, $2, $2
FROM unnest($3::bigint[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bytea[])
	AS e (seq, type, step, node_id, channel_id, task_id, payload, metadata)
ORDER BY e.seq
ON CONFLICT (run_id, seq) DO NOTHING`

	// advanceSQL is a whole transition in one statement: the run first, so that
	// its row lock orders the ids, then the events on the database's clock.
	advanceSQL = `
WITH updated_run AS (` + updateRunSQL + `
	RETURNING run_id
), proposed AS MATERIALIZED (
	SELECT * FROM unnest($8::bigint[], $9::text[], $10::integer[], $11::text[], $12::text[], $13::text[], $14::bytea[], $15::bytea[])
		AS e (seq, type, step, node_id, channel_id, task_id, payload, metadata)
	ORDER BY seq
), inserted AS (
	INSERT INTO $schema.docket_events (run_id, seq, type, step, node_id, channel_id, task_id, payload, metadata, occurred_at, inserted_at)
	SELECT r.run_id, e.seq, e.type, e.step, NULLIF(e.node_id, ''), NULLIF(e.channel_id, ''), NULLIF(e.task_id, ''),
		e.payload, e.metadata, $6, clock_timestamp()
	FROM updated_run r CROSS JOIN proposed e
	RETURNING seq
)
SELECT count(*) FROM inserted`
)

// columns are events as the parallel arrays that the statements unnest.
func columns(events []event) []any {
	n := len(events)
	seqs, steps := make([]int64, n), make([]int32, n)
	kinds, nodes, channels, tasks := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	payloads, metadatas := make([][]byte, n), make([][]byte, n)
	for i, e := range events {
		seqs[i], steps[i] = e.seq, int32(e.step)
		kinds[i], nodes[i], channels[i], tasks[i] = e.kind, e.node, e.channel, e.taskID
		payloads[i], metadatas[i] = e.payload, e.metadata
	}
	return []any{seqs, kinds, steps, nodes, channels, tasks, payloads, metadatas}
}
