-- Needs PostgreSQL 14 or newer (multiranges). The schema name is filled in when this is applied.

CREATE TABLE @schema@.source (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    docket_schema     text NOT NULL,
    system_identifier bigint NOT NULL,
    bound_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE @schema@.source IS 'The Docket these tables belong to; at most one row.';
COMMENT ON COLUMN @schema@.source.system_identifier IS 'pg_control_system() of the server that Docket''s tables are on.';

-- Small and hot: one row per consumer, written for every batch. The free space
-- keeps its versions on one page (HOT), so no changing column has an index.
CREATE TABLE @schema@.consumers (
    uid             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name            text NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9_]*$'),
    kind            text NOT NULL DEFAULT 'live' CHECK (kind IN ('live', 'backfill')),
    high_id         bigint NOT NULL,
    holes           int8multirange NOT NULL DEFAULT '{}',
    dead            int8multirange NOT NULL DEFAULT '{}',
    batch           bigint NOT NULL DEFAULT 0 CHECK (batch >= 0),
    attempts        integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    intent_high     bigint,
    intent_holes    int8multirange,
    intent_events   bigint,
    intent_rows     bigint,
    intent_hash     bytea,
    begun_at        timestamptz,
    epoch           bigint NOT NULL DEFAULT 0,
    revision        bigint NOT NULL DEFAULT 0,
    owner           text,
    instance        text,
    lease_until     timestamptz,
    caught_up_at    timestamptz,
    accepted_at     timestamptz,
    events_accepted bigint NOT NULL DEFAULT 0,
    last_event_id   bigint,
    last_run_id     text,
    last_seq        bigint,
    mark_event_id   bigint,
    mark_run_id     text,
    mark_seq        bigint,
    mark_hash       bytea,
    mark_at         timestamptz,
    read_at         timestamptz,
    polled_at       timestamptz,
    oldest_hole_at  timestamptz,
    until_high      bigint,
    until_holes     int8multirange,
    spec            jsonb,
    filter          jsonb,
    finished_at     timestamptz,
    last_error      text,
    last_error_at   timestamptz,
    waiting_for     text,
    paused_at       timestamptz,
    paused_by       text,
    paused_reason   text,
    paused_detail   text,
    letters_from    timestamptz,
    holders         jsonb NOT NULL DEFAULT '[]',
    source_seen     jsonb,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT holes_below_high CHECK (holes <@ int8multirange(int8range(NULL, high_id, '[]'))),
    CONSTRAINT intent_whole CHECK (
        num_nulls(intent_high, intent_holes, intent_events, intent_rows, intent_hash, begun_at) IN (0, 6)),
    CONSTRAINT mark_whole CHECK (num_nulls(mark_event_id, mark_run_id, mark_seq, mark_hash, mark_at) IN (0, 5)),
    CONSTRAINT until_whole CHECK (num_nulls(until_high, until_holes) IN (0, 2)),
    CONSTRAINT lease_whole CHECK (num_nulls(owner, lease_until) IN (0, 2)),
    CONSTRAINT pause_whole CHECK (num_nulls(paused_at, paused_by, paused_reason, paused_detail) IN (0, 4))
) WITH (
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 500,
    toast.autovacuum_vacuum_cost_delay = 0,
    toast.vacuum_truncate = off
);
COMMENT ON TABLE @schema@.consumers IS 'One row per consumer: position, batch in flight, and who owns it. Change it with the exporter command only; a change by hand is not fenced.';
COMMENT ON COLUMN @schema@.consumers.uid IS 'Made once and never used again, also not by a later consumer of the same name.';
COMMENT ON COLUMN @schema@.consumers.high_id IS 'Every event id up to here is done, except those in holes.';
COMMENT ON COLUMN @schema@.consumers.holes IS 'Ids up to high_id that are still open: handed out and not yet visible.';
COMMENT ON COLUMN @schema@.consumers.dead IS 'Ids below high_id that were given up because they can never appear; the sweep looks for them. May be a second behind the position.';
COMMENT ON COLUMN @schema@.consumers.batch IS 'Number of the last batch begun.';
COMMENT ON COLUMN @schema@.consumers.attempts IS 'Attempts begun at the batch in flight; 0 when there is none, or when its only attempt was cut short by a shutdown.';
COMMENT ON COLUMN @schema@.consumers.intent_high IS 'With intent_holes the position to which the batch in flight leads; NULL when there is none.';
COMMENT ON COLUMN @schema@.consumers.intent_events IS 'Events of the batch in flight.';
COMMENT ON COLUMN @schema@.consumers.intent_rows IS 'Rows of the batch in flight, filtered ones included.';
COMMENT ON COLUMN @schema@.consumers.intent_hash IS 'SHA-256 over the identities of the batch in flight.';
COMMENT ON COLUMN @schema@.consumers.epoch IS 'Ownership number: each claim raises it. A write of an older epoch changes nothing.';
COMMENT ON COLUMN @schema@.consumers.revision IS 'Raised by each write of position or intent, so that a delayed write of the same epoch changes nothing.';
COMMENT ON COLUMN @schema@.consumers.instance IS 'Made by each process at its start: tells processes apart that have the owner''s name.';
COMMENT ON COLUMN @schema@.consumers.lease_until IS 'When another process may take the consumer, on the clock of this database.';
COMMENT ON COLUMN @schema@.consumers.caught_up_at IS 'When the owner last saw nothing left to deliver.';
COMMENT ON COLUMN @schema@.consumers.last_event_id IS 'With last_run_id and last_seq the accepted event of the highest id in the newest batch that had one.';
COMMENT ON COLUMN @schema@.consumers.mark_event_id IS 'With mark_run_id, mark_seq and mark_hash the row of the highest id that has been read: a source in which it is another row is another source.';
COMMENT ON COLUMN @schema@.consumers.mark_at IS 'inserted_at of that row.';
COMMENT ON COLUMN @schema@.consumers.read_at IS 'What was inserted before this has been read, but for open ids; on the clock of Docket''s database.';
COMMENT ON COLUMN @schema@.consumers.polled_at IS 'When the owner last read the source with success.';
COMMENT ON COLUMN @schema@.consumers.oldest_hole_at IS 'Since when the oldest open id is known to be open; NULL when none is.';
COMMENT ON COLUMN @schema@.consumers.until_high IS 'With until_holes the position at which a backfill ends.';
COMMENT ON COLUMN @schema@.consumers.filter IS 'Which events its owner was configured to deliver: lists of patterns under types, tenants and graphs; NULL until an owner has told.';
COMMENT ON COLUMN @schema@.consumers.spec IS 'What a backfill was asked for.';
COMMENT ON COLUMN @schema@.consumers.last_error IS 'What the owner is stuck on; NULL when it is not.';
COMMENT ON COLUMN @schema@.consumers.waiting_for IS 'Out of consideration for whom the owner of a backfill reads nothing; NULL when it reads.';
COMMENT ON COLUMN @schema@.consumers.paused_reason IS 'operator, or why the exporter paused it by itself.';
COMMENT ON COLUMN @schema@.consumers.letters_from IS 'When a person last resumed it after a pause for dead_letters: only those written since count towards its limit.';
COMMENT ON COLUMN @schema@.consumers.source_seen IS 'The server and the tables as the consumer last read them: a source in which they are others is another source. NULL when any will do.';
COMMENT ON COLUMN @schema@.consumers.holders IS 'Transactions that keep ids open, as the owner last saw them; for people.';

CREATE TABLE @schema@.dead_letters (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_uid    uuid NOT NULL,
    consumer        text NOT NULL,
    event_id        bigint NOT NULL,
    run_id          text NOT NULL,
    seq             bigint NOT NULL,
    type            text NOT NULL,
    step            integer NOT NULL,
    node_id         text,
    channel_id      text,
    task_id         text,
    tenant_id       text,
    graph_id        text,
    graph_hash      text,
    payload         bytea NOT NULL,
    metadata        bytea NOT NULL,
    occurred_at     timestamptz, -- NULL where it was infinity
    inserted_at     timestamptz,
    idempotency_key text NOT NULL,
    batch           bigint NOT NULL,
    class           text NOT NULL,
    reason          text NOT NULL,
    attempts        integer NOT NULL,
    state           text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed', 'discarded', 'held')),
    replays         integer NOT NULL DEFAULT 0,
    last_error      text,
    claimed_by      text,
    claimed_until   timestamptz,
    first_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (consumer_uid, idempotency_key),
    CONSTRAINT claim_whole CHECK (num_nulls(claimed_by, claimed_until) IN (0, 2))
);
CREATE INDEX dead_letters_recent ON @schema@.dead_letters (consumer_uid, first_at);
CREATE INDEX dead_letters_run ON @schema@.dead_letters (consumer_uid, hashtextextended(run_id, 0)) WHERE state IN ('open', 'held');
CREATE INDEX dead_letters_undecided ON @schema@.dead_letters (consumer_uid, state, id) WHERE state IN ('open', 'held');
COMMENT ON TABLE @schema@.dead_letters IS 'Events a sink will never accept, whole, until a person decides. They outlive Docket''s rows and their consumer, so nothing here refers to consumers.';
COMMENT ON COLUMN @schema@.dead_letters.consumer IS 'Name of the consumer; follows a rename.';
COMMENT ON COLUMN @schema@.dead_letters.payload IS 'Docket''s own bytes.';
COMMENT ON COLUMN @schema@.dead_letters.metadata IS 'Docket''s own bytes.';
COMMENT ON COLUMN @schema@.dead_letters.idempotency_key IS 'Stands for run_id, seq and event_id: the same event is recorded once per consumer. A digest, because a run id may be longer than an index entry.';
COMMENT ON COLUMN @schema@.dead_letters.batch IS 'Number of the batch in which it was given up.';
COMMENT ON COLUMN @schema@.dead_letters.class IS 'A fixed word, such as undecodable or too_large.';
COMMENT ON COLUMN @schema@.dead_letters.reason IS 'What the sink said: at most 500 characters, no payload.';
COMMENT ON COLUMN @schema@.dead_letters.attempts IS 'Deliveries tried before it was given up.';
COMMENT ON COLUMN @schema@.dead_letters.state IS 'open: waits for a person. held: waits for an earlier event of its run. replayed: the sink has it. discarded: a person gave it up.';
COMMENT ON COLUMN @schema@.dead_letters.replays IS 'Deliveries that a person has asked for.';
COMMENT ON COLUMN @schema@.dead_letters.last_error IS 'Why the last of those failed.';
COMMENT ON COLUMN @schema@.dead_letters.claimed_by IS 'The replay under way. It has nothing to do with the owner of the consumer.';
COMMENT ON COLUMN @schema@.dead_letters.claimed_until IS 'When another replay may take it, on the clock of this database.';

CREATE TABLE @schema@.losses (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_uid uuid NOT NULL,
    consumer     text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('delivery_unknown', 'pruned')),
    batch        bigint NOT NULL,
    first_id     bigint NOT NULL,
    last_id      bigint NOT NULL,
    ids          int8multirange,
    events       bigint NOT NULL,
    certain      boolean NOT NULL DEFAULT false,
    since        timestamptz,
    until        timestamptz,
    runs         jsonb NOT NULL DEFAULT '[]',
    reason       text NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_at  timestamptz,
    accepted_by  text,
    accepted_reason text,
    CHECK (first_id <= last_id),
    CONSTRAINT acceptance_whole CHECK (num_nulls(accepted_at, accepted_by, accepted_reason) IN (0, 3))
);
CREATE INDEX losses_consumer ON @schema@.losses (consumer_uid, id);
COMMENT ON TABLE @schema@.losses IS 'Ranges of ids in which events are, or may be, gone. They outlive their consumer.';
COMMENT ON COLUMN @schema@.losses.kind IS 'delivery_unknown: rows of a batch in flight were gone when it was sent again after a crash; pruned: ids that may have been events which retention deleted before they were read.';
COMMENT ON COLUMN @schema@.losses.ids IS 'Exactly which ids; NULL where that is not known.';
COMMENT ON COLUMN @schema@.losses.events IS 'Upper bound of the number of events: ids that were never used count as well.';
COMMENT ON COLUMN @schema@.losses.certain IS 'Some of the ids are proven to have been events: see runs.';
COMMENT ON COLUMN @schema@.losses.since IS 'With until the time in which the events were inserted, on the clock of Docket''s database; NULL where it is not known.';
COMMENT ON COLUMN @schema@.losses.runs IS 'Runs whose events are proven to be gone: run_id, first_seq, last_seq (absent where nothing is left that would tell).';
COMMENT ON COLUMN @schema@.losses.accepted_at IS 'When a person took note; NULL until then.';

CREATE TABLE @schema@.replicas (
    name       text PRIMARY KEY,
    seen_until timestamptz NOT NULL,
    consumers  text[] NOT NULL
);
COMMENT ON TABLE @schema@.replicas IS 'The processes that run consumers, so that they can share them. It decides nothing about ownership: that is the lease in consumers.';
COMMENT ON COLUMN @schema@.replicas.seen_until IS 'Until when the process counts, on the clock of this database; raised while it lives.';
COMMENT ON COLUMN @schema@.replicas.consumers IS 'What it is configured to run.';

CREATE TABLE @schema@.audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    who      text NOT NULL,
    command  text NOT NULL,
    consumer text,
    reason   text NOT NULL,
    before   jsonb,
    after    jsonb
);
COMMENT ON TABLE @schema@.audit IS 'What people, and the exporter on its own account, changed. Rows are only inserted.';
COMMENT ON COLUMN @schema@.audit.before IS 'The row before the change, without dead; NULL when it was created.';
COMMENT ON COLUMN @schema@.audit.after IS 'The row after the change, without dead; NULL when it was removed.';

-- The views read more than one relation, so PostgreSQL lets nobody write through them.

CREATE VIEW @schema@.export_status AS
SELECT c.name AS consumer,
       c.kind,
       CASE WHEN c.finished_at IS NOT NULL AND (c.spec->>'cancelled')::boolean THEN 'cancelled'
            WHEN c.finished_at IS NOT NULL THEN 'finished'
            WHEN c.paused_at IS NOT NULL THEN 'paused'
            WHEN c.lease_until >= clock_timestamp() THEN 'running'
            ELSE 'unowned' END AS state,
       c.high_id || coalesce('-' || h.text, '') AS position,
       c.high_id,
       coalesce(h.ranges, 0) AS open_ranges,
       coalesce(h.ids, 0) AS open_ids,
       CASE WHEN c.lease_until >= clock_timestamp() THEN c.oldest_hole_at END AS oldest_hole_at,
       c.batch,
       c.attempts,
       c.intent_events AS events_in_flight,
       c.begun_at,
       c.owner,
       c.epoch,
       c.lease_until,
       coalesce(c.lease_until >= clock_timestamp(), false) AS lease_live,
       c.caught_up_at,
       c.accepted_at,
       greatest(c.caught_up_at, c.accepted_at) AS progress_at,
       c.polled_at,
       c.events_accepted,
       (SELECT count(*) FROM @schema@.dead_letters d
         WHERE d.consumer_uid = c.uid AND d.state IN ('open', 'held')) AS dead_letters,
       l.losses,
       l.lost_events,
       c.last_error,
       c.last_error_at,
       CASE WHEN c.lease_until >= clock_timestamp() THEN c.waiting_for END AS waiting_for,
       c.paused_at,
       c.paused_by,
       c.paused_reason,
       c.paused_detail,
       c.finished_at
  FROM @schema@.consumers c
 CROSS JOIN LATERAL (
       SELECT '{' || string_agg(format('[%s,%s]', lower(r), upper(r) - 1), ',' ORDER BY r) || '}' AS text,
              count(*) AS ranges, sum(upper(r) - lower(r)) AS ids
         FROM unnest(c.holes) AS r) h
 CROSS JOIN LATERAL (
       SELECT count(*) AS losses, coalesce(sum(l.events), 0)::bigint AS lost_events
         FROM @schema@.losses l
        WHERE l.consumer_uid = c.uid AND l.accepted_at IS NULL) l;
COMMENT ON VIEW @schema@.export_status IS 'Where each consumer is and who owns it. Lag needs Docket''s tables and is not here: see the metrics or exporter status.';

CREATE VIEW @schema@.export_dead_letters AS
SELECT d.id, d.consumer, c.uid IS NULL AS consumer_removed, d.state, d.class, d.reason, d.attempts,
       d.run_id, d.seq, d.event_id, d.type, d.step, d.node_id, d.tenant_id, d.graph_id,
       d.occurred_at, d.first_at, d.changed_at, d.batch, d.replays, d.last_error, d.idempotency_key,
       octet_length(d.payload) + octet_length(d.metadata) AS bytes
  FROM @schema@.dead_letters d
  LEFT JOIN @schema@.consumers c ON c.uid = d.consumer_uid;
COMMENT ON VIEW @schema@.export_dead_letters IS 'Dead letters without their payload.';

CREATE VIEW @schema@.export_holes AS
SELECT c.name AS consumer,
       lower(r) AS first_id,
       upper(r) - 1 AS last_id,
       upper(r) - lower(r) AS ids,
       CASE WHEN c.lease_until >= clock_timestamp() THEN c.oldest_hole_at END AS oldest_since,
       CASE WHEN c.lease_until >= clock_timestamp() THEN (SELECT string_agg(concat_ws(' ', coalesce('prepared ' || (h->>'gid'), 'pid ' || (h->>'pid'), 'transaction ' || (h->>'transaction')),
                                    h->>'application', h->>'user', h->>'state', 'since ' || (h->>'since')), '; ')
          FROM jsonb_array_elements(c.holders) AS h) END AS held_by,
       c.holders
  FROM @schema@.consumers c
 CROSS JOIN LATERAL unnest(c.holes) AS r;
COMMENT ON VIEW @schema@.export_holes IS 'One row per range of open ids. held_by are the transactions that keep ids of the consumer open, oldest_since is when the oldest of its ranges is known to be open; both are of the consumer, not of the range, and NULL while no owner looks.';

CREATE VIEW @schema@.export_losses AS
SELECT l.id, l.consumer, c.uid IS NULL AS consumer_removed, l.kind,
       CASE WHEN l.accepted_at IS NULL THEN 'open' ELSE 'accepted' END AS state,
       l.first_id, l.last_id, l.events AS at_most_events, l.certain, l.since, l.until, l.runs, l.reason, l.at,
       l.accepted_at, l.accepted_by, l.accepted_reason
  FROM @schema@.losses l
  LEFT JOIN @schema@.consumers c ON c.uid = l.consumer_uid;
COMMENT ON VIEW @schema@.export_losses IS 'Ids in which events are, or may be, gone.';
