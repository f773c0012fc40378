package clickhouse

import "strings"

// DDLOptions are what differs between the tables that DDL prints.
type DDLOptions struct {
	// Cluster makes a replicated table on every server of that cluster.
	Cluster string
	// JSON makes payload and metadata columns of ClickHouse's JSON type. That
	// type refuses integers above 64 bits, and a payload with one refuses the
	// row; String takes every payload.
	JSON bool
}

// DDL returns the statement that makes the default table.
func DDL(table string, o DDLOptions) string {
	cluster, engine, window := "", "ReplacingMergeTree", "non_replicated_deduplication_window"
	if o.Cluster != "" {
		cluster = " ON CLUSTER '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(o.Cluster) + "'"
		engine = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')"
		window = "replicated_deduplication_window"
	}
	document := "String CODEC(ZSTD(3))"
	if o.JSON {
		document = "JSON"
	}
	return strings.NewReplacer(
		"{table}", quoteTable(table), "{cluster}", cluster, "{engine}", engine, "{window}", window, "{document}", document,
	).Replace(ddl)
}

const ddl = `CREATE TABLE IF NOT EXISTS {table}{cluster}
(
    -- The identity. A run id can be used again after its run was deleted, so
    -- run_id and seq alone do not tell events apart; event_id does.
    run_id      String,
    seq         Int64,
    event_id    Int64,

    type        LowCardinality(String),
    step        Int32,

    -- NULL is an absent value, which an empty text is not. Within
    -- LowCardinality the difference costs nothing.
    node_id     LowCardinality(Nullable(String)),
    channel_id  LowCardinality(Nullable(String)),
    task_id     Nullable(String),
    tenant_id   LowCardinality(Nullable(String)),
    graph_id    LowCardinality(Nullable(String)),
    graph_hash  LowCardinality(Nullable(String)),

    -- JSON as text: every payload fits, and numbers keep their digits.
    -- Read it with JSONExtract….
    payload     {document},
    metadata    {document},

    -- Docket's own times. There is no time of export: the same event must be
    -- the same row whenever it is delivered.
    occurred_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    inserted_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),

    -- The key that other sinks send along; computed when asked for, not stored.
    idempotency_key String ALIAS lower(hex(SHA256(concat(
        toString(length(run_id)), ':', run_id, ':', toString(seq), ':', toString(event_id)))))
)
-- Rows with the same sorting key are one event. Merges remove a second copy in
-- time; SELECT … FINAL never shows it.
ENGINE = {engine}
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (run_id, seq, event_id)
-- How many inserts the server remembers by their tokens: a batch that comes
-- again after a crash is dropped, so that queries need no FINAL.
SETTINGS {window} = 1000
`
