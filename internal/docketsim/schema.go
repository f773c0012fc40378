package docketsim

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer is a connection, pool or transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Install makes the schema and in it docket_runs and docket_events as Docket
// 0.3.0 (schema version 2) makes them, without its graph and claim tables and
// what refers to those. What exists already is left as it is.
func Install(ctx context.Context, db Execer, schema string) error {
	ddl := strings.ReplaceAll(schemaDDL, "$schema", pgx.Identifier{schema}.Sanitize())
	if _, err := db.Exec(ctx, ddl); err != nil {
		return fmt.Errorf("install docket tables in schema %s: %w", schema, err)
	}
	return nil
}

// schemaDDL states the tables of Docket's migrations 1 and 2: same columns,
// types, constraints and indexes by name.
const schemaDDL = `
CREATE SCHEMA IF NOT EXISTS $schema;

CREATE TABLE IF NOT EXISTS $schema.docket_runs (
	id bigserial PRIMARY KEY,
	run_id text NOT NULL,
	tenant_id text CONSTRAINT docket_runs_tenant_id_check CHECK (tenant_id IS NULL OR tenant_id <> ''),
	scope_key text GENERATED ALWAYS AS (COALESCE(tenant_id, '')) STORED NOT NULL,
	graph_id text NOT NULL,
	graph_hash text NOT NULL,
	status text NOT NULL
		CONSTRAINT docket_runs_status_check CHECK (status IN ('running', 'waiting', 'done', 'failed', 'cancelled')),
	step integer NOT NULL DEFAULT 0,
	state bytea NOT NULL,
	checkpoint_seq bigint NOT NULL DEFAULT 0,
	latest_checkpoint_type text,
	claim_token uuid,
	claimed_at timestamptz,
	wake_at timestamptz,
	claim_attempts integer NOT NULL DEFAULT 0,
	claim_abandons integer NOT NULL DEFAULT 0,
	poisoned_at timestamptz,
	poison_reason text,
	inserted_at timestamptz NOT NULL,
	started_at timestamptz NOT NULL,
	updated_at timestamptz NOT NULL,
	finished_at timestamptz,
	tenant_admitted_at timestamptz,
	CONSTRAINT docket_runs_finished_at_check
		CHECK ((status IN ('done', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
	CONSTRAINT docket_runs_claim_pair_check CHECK ((claim_token IS NULL) = (claimed_at IS NULL)),
	CONSTRAINT docket_runs_poison_pair_check CHECK ((poisoned_at IS NULL) = (poison_reason IS NULL)),
	CONSTRAINT docket_runs_waiting_terminal_idle_check
		CHECK (status = 'running' OR (claim_token IS NULL AND wake_at IS NULL AND poisoned_at IS NULL)),
	CONSTRAINT docket_runs_poisoned_shape_check
		CHECK (poisoned_at IS NULL OR (status = 'running' AND claim_token IS NULL AND wake_at IS NULL)),
	CONSTRAINT docket_runs_running_schedule_check
		CHECK (status <> 'running' OR poisoned_at IS NOT NULL OR ((wake_at IS NOT NULL) <> (claim_token IS NOT NULL))),
	CONSTRAINT docket_runs_counters_check
		CHECK (step >= 0 AND checkpoint_seq >= 0 AND claim_attempts >= 0 AND claim_abandons >= 0),
	CONSTRAINT docket_runs_tenant_admission_shape_check
		CHECK (tenant_admitted_at IS NULL OR (status = 'running' AND poisoned_at IS NULL))
);

CREATE UNIQUE INDEX IF NOT EXISTS docket_runs_run_id_index ON $schema.docket_runs (run_id);
CREATE INDEX IF NOT EXISTS docket_runs_list_order_index ON $schema.docket_runs (started_at DESC, run_id DESC);
CREATE INDEX IF NOT EXISTS docket_runs_tenant_list_order_index
	ON $schema.docket_runs (tenant_id, started_at DESC, run_id DESC);
CREATE INDEX IF NOT EXISTS docket_runs_tenant_id_status_index
	ON $schema.docket_runs (tenant_id, status) WHERE tenant_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_tenant_id_graph_id_status_index
	ON $schema.docket_runs (tenant_id, graph_id, status) WHERE tenant_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_wake_at_id_index ON $schema.docket_runs (wake_at, id)
	WHERE status = 'running' AND poisoned_at IS NULL AND claim_token IS NULL AND wake_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_claimed_at_id_index ON $schema.docket_runs (claimed_at, id)
	WHERE status = 'running' AND poisoned_at IS NULL AND claim_token IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_poisoned_at_index
	ON $schema.docket_runs (poisoned_at) WHERE poisoned_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_status_updated_at_index ON $schema.docket_runs (status, updated_at);
CREATE INDEX IF NOT EXISTS docket_runs_updated_at_id_index
	ON $schema.docket_runs (updated_at, id) WHERE status IN ('done', 'failed', 'cancelled');
CREATE INDEX IF NOT EXISTS docket_runs_graph_id_graph_hash_index ON $schema.docket_runs (graph_id, graph_hash);
CREATE INDEX IF NOT EXISTS docket_runs_scope_admitted_index ON $schema.docket_runs (scope_key)
	WHERE status = 'running' AND poisoned_at IS NULL AND tenant_admitted_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_scope_admitted_ready_index ON $schema.docket_runs (scope_key, wake_at, id)
	WHERE status = 'running' AND poisoned_at IS NULL AND tenant_admitted_at IS NOT NULL
		AND claim_token IS NULL AND wake_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_scope_queued_ready_index ON $schema.docket_runs (scope_key, wake_at, id)
	WHERE status = 'running' AND poisoned_at IS NULL AND tenant_admitted_at IS NULL
		AND claim_token IS NULL AND wake_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS docket_runs_scope_admitted_expired_index ON $schema.docket_runs (scope_key, claimed_at, id)
	WHERE status = 'running' AND poisoned_at IS NULL AND tenant_admitted_at IS NOT NULL AND claim_token IS NOT NULL;

CREATE TABLE IF NOT EXISTS $schema.docket_events (
	id bigserial PRIMARY KEY,
	run_id text NOT NULL CONSTRAINT docket_events_run_id_fkey
		REFERENCES $schema.docket_runs (run_id) ON DELETE CASCADE,
	seq bigint NOT NULL,
	type text NOT NULL,
	step integer NOT NULL,
	node_id text,
	channel_id text,
	task_id text,
	payload bytea NOT NULL,
	metadata bytea NOT NULL,
	occurred_at timestamptz NOT NULL,
	inserted_at timestamptz NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS docket_events_run_id_seq_index ON $schema.docket_events (run_id, seq);
CREATE INDEX IF NOT EXISTS docket_events_inserted_at_id_index ON $schema.docket_events (inserted_at, id);

COMMENT ON TABLE $schema.docket_runs IS '2';
`
