package cursor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// States of a dead letter.
const (
	StateOpen      = "open"      // waits for a person
	StateHeld      = "held"      // waits for an earlier event of its run
	StateReplayed  = "replayed"  // the sink has it
	StateDiscarded = "discarded" // a person gave it up
)

// ErrNoDeadLetter says that there is no dead letter of that id.
var ErrNoDeadLetter = errors.New("no such dead letter")

// DeadLetter is an event that is kept for a person.
type DeadLetter struct {
	ID          int64
	ConsumerUID string
	Consumer    string         // its present name, or its last one
	Event       exporter.Event // payload and metadata as Docket wrote them; without both in a list
	Bytes       int64          // of payload and metadata
	Key         string         // the event's idempotency key
	Batch       int64          // in which it was put aside
	Class       string         // a fixed word
	Reason      string         // what the sink said
	Attempts    int            // deliveries before it was put aside
	State       string

	Replays      int    // deliveries that a person asked for
	LastError    string // why the last of those failed; empty when it did not
	ClaimedBy    string // the replay under way; empty when there is none
	ClaimedUntil *time.Time
	FirstAt      time.Time // when it was put aside
	ChangedAt    time.Time // when its state last changed
}

// Undecided reports whether the letter still waits.
func (d *DeadLetter) Undecided() bool { return d.State == StateOpen || d.State == StateHeld }

// Letters chooses dead letters. Zero fields choose all.
type Letters struct {
	IDs          []int64
	Consumer     string
	Run          string
	Type         string
	Class        string
	States       []string
	Since, Until time.Time // put aside at or after Since, and before Until
	Limit        int
}

// DeadLetters returns the chosen letters in the order in which their events are
// offered to a sink: by consumer, run and seq. Payload and metadata are left out.
func (s *Store) DeadLetters(ctx context.Context, which Letters) ([]DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectLetters), which.IDs, textOrNull(which.Consumer), textOrNull(which.Run),
		textOrNull(which.Type), textOrNull(which.Class), which.States, timeOrNull(which.Since), timeOrNull(which.Until), countOrNull(which.Limit))
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanLetter)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return list, nil
}

var selectLetters = `
SELECT ` + listedColumns + `, NULL::bytea, NULL::bytea
  FROM {dead_letters} d
 WHERE ($1::bigint[] IS NULL OR d.id = ANY ($1::bigint[]))
   AND ($2::text IS NULL OR d.consumer = $2::text)
   AND ($3::text IS NULL OR d.run_id = $3::text)
   AND ($4::text IS NULL OR d.type = $4::text)
   AND ($5::text IS NULL OR d.class = $5::text)
   AND ($6::text[] IS NULL OR d.state = ANY ($6::text[]))
   AND ($7::timestamptz IS NULL OR d.first_at >= $7::timestamptz)
   AND ($8::timestamptz IS NULL OR d.first_at < $8::timestamptz)
 ORDER BY d.consumer, d.consumer_uid, d.run_id COLLATE "C", d.seq, d.event_id
 LIMIT $9::bigint`

// DeadLetter returns a letter whole, and what was done about it, oldest first.
func (s *Store) DeadLetter(ctx context.Context, id int64) (DeadLetter, []Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(`SELECT `+letterColumns+`, d.payload, d.metadata FROM {dead_letters} d WHERE d.id = $1::bigint`), id)
	if err != nil {
		return DeadLetter{}, nil, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanLetter)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoDeadLetter
	}
	if err != nil {
		return DeadLetter{}, nil, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	rows, err = s.pool.Query(ctx, s.sql(selectLetterAudit), id)
	if err != nil {
		return d, nil, fmt.Errorf("read the audit of dead letter %d: %w", id, err)
	}
	audit, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Audit])
	if err != nil {
		return d, nil, fmt.Errorf("read the audit of dead letter %d: %w", id, err)
	}
	return d, audit, nil
}

// Audit is what a person did about a dead letter.
type Audit struct {
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Command string    `json:"command"`
	Reason  string    `json:"reason"`
	Before  string    `json:"before"` // state
	After   string    `json:"after"`  // state
	Error   string    `json:"error,omitempty"`
}

const selectLetterAudit = `
SELECT a.at, a.who, a.command, a.reason, coalesce(a.before ->> 'state', ''), coalesce(a.after ->> 'state', ''), coalesce(a.after ->> 'error', '')
  FROM {audit} a
 WHERE a.command IN ('` + replayCommand + `', '` + discardCommand + `') AND (a.before ->> 'dead_letter')::bigint = $1::bigint
 ORDER BY a.id`

// letterColumns are what scanLetter reads, before payload and metadata.
const letterColumns = `d.id, d.consumer_uid::text, d.consumer, d.event_id, d.run_id, d.seq, d.type, d.step, d.node_id, d.channel_id, d.task_id,
       d.tenant_id, d.graph_id, d.graph_hash, d.occurred_at, d.inserted_at, octet_length(d.payload) + octet_length(d.metadata),
       d.idempotency_key, d.batch, d.class, d.reason, d.attempts, d.state, d.replays, coalesce(d.last_error, ''),
       coalesce(d.claimed_by, ''), d.claimed_until, d.first_at, d.changed_at`

// listedColumns are the same for a role that may not read payloads: their length
// comes from the view.
var listedColumns = strings.Replace(letterColumns, `octet_length(d.payload) + octet_length(d.metadata)`,
	`(SELECT v.bytes FROM {export_dead_letters} v WHERE v.id = d.id)`, 1)

func scanLetter(row pgx.CollectableRow) (DeadLetter, error) {
	var d DeadLetter
	e := &d.Event
	var node, channel, task, tenant, graph, hash *string
	var occurred, inserted *time.Time
	err := row.Scan(&d.ID, &d.ConsumerUID, &d.Consumer, &e.ID, &e.RunID, &e.Seq, &e.Type, &e.Step, &node, &channel, &task,
		&tenant, &graph, &hash, &occurred, &inserted, &d.Bytes,
		&d.Key, &d.Batch, &d.Class, &d.Reason, &d.Attempts, &d.State, &d.Replays, &d.LastError,
		&d.ClaimedBy, &d.ClaimedUntil, &d.FirstAt, &d.ChangedAt, &e.EncodedPayload, &e.EncodedMetadata)
	e.NodeID, e.ChannelID, e.TaskID = textOf(node), textOf(channel), textOf(task)
	e.TenantID, e.GraphID, e.GraphHash = textOf(tenant), textOf(graph), textOf(hash)
	if occurred != nil {
		e.OccurredAt = occurred.UTC()
	}
	if inserted != nil {
		e.InsertedAt = inserted.UTC()
	}
	return d, err
}

func textOf(s *string) exporter.Text {
	if s == nil {
		return exporter.Text{}
	}
	return exporter.Text{Value: *s, Present: true}
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func countOrNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// LetterEvents returns the ids of events that are not to be in the sink of
// consumers, told by their uids: of dead letters that nobody has decided on, and
// of those that were discarded, also when they were purged since.
func (s *Store) LetterEvents(ctx context.Context, uids []string) (map[int64]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*statementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, s.sql(selectLetterEvents), uids)
	if err != nil {
		return nil, fmt.Errorf("read events of dead letters: %w", err)
	}
	events := map[int64]bool{}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		events[id] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events of dead letters: %w", err)
	}
	return events, nil
}

const selectLetterEvents = `
SELECT event_id FROM {dead_letters} WHERE consumer_uid = ANY ($1::text[]::uuid[]) AND state IN ('open', 'held', 'discarded')
UNION ALL
SELECT event.id::bigint
  FROM {audit} a
 CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(a.before->'discarded') WHEN 'object' THEN a.before->'discarded' ELSE '{}' END) AS of (uid, ids)
 CROSS JOIN LATERAL jsonb_array_elements_text(of.ids) AS event (id)
 WHERE a.command = 'deadletter purge' AND of.uid = ANY ($1::text[])`
