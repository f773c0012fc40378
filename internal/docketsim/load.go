package docketsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// LoadOptions say what Load writes.
type LoadOptions struct {
	// Seed makes the rows: the same seed, the same rows but for run ids and times.
	Seed uint64
	// PayloadBytes is the length of a text added to every payload; 0 keeps the
	// real distribution of sizes.
	PayloadBytes int
	// Age is how long ago the first event was; the others follow evenly up to
	// now.
	Age time.Duration
}

// loadChunk is how many events are generated and copied at a time, and
// loadWriters how many runs are interleaved in them.
const (
	loadChunk   = 50_000
	loadWriters = 16
)

// Load bulk-copies exactly n ≥ 3 events of complete transitions, and their
// runs, as 16 concurrent writers would have left them. Ids come from the
// table's sequence and have no gaps.
func Load(ctx context.Context, pool *pgxpool.Pool, schema string, n int, o LoadOptions) error {
	if n < 3 {
		return fmt.Errorf("load %d events: a run has at least 3", n)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("load events: %w", err)
	}
	defer conn.Release()
	l := loader{
		conn: conn.Conn(), schema: schema, rng: rand.New(rand.NewPCG(o.Seed, 0)),
		from: now().Add(-o.Age), interval: o.Age / time.Duration(n), remaining: n,
	}
	if o.PayloadBytes > 0 {
		l.filler = strings.Repeat("x", o.PayloadBytes)
	}
	for l.remaining > 0 {
		if err := l.copyChunk(ctx); err != nil {
			return fmt.Errorf("load events: %w", err)
		}
	}
	if _, err := l.conn.Exec(ctx, "ANALYZE "+l.table("docket_runs").Sanitize()+", "+l.table("docket_events").Sanitize()); err != nil {
		return fmt.Errorf("load events: %w", err)
	}
	return nil
}

type loader struct {
	conn      *pgx.Conn
	schema    string
	rng       *rand.Rand
	filler    string
	from      time.Time
	interval  time.Duration
	written   int // events, for their times
	remaining int // events still to tell
}

func (l *loader) table(name string) pgx.Identifier { return pgx.Identifier{l.schema, name} }

var (
	runColumns = []string{
		"run_id", "tenant_id", "graph_id", "graph_hash", "status", "step", "state", "checkpoint_seq", "latest_checkpoint_type",
		"wake_at", "inserted_at", "started_at", "updated_at", "finished_at",
	}
	eventColumns = []string{
		"run_id", "seq", "type", "step", "node_id", "channel_id", "task_id", "payload", "metadata", "occurred_at", "inserted_at",
	}
)

// copyChunk tells and copies about loadChunk events.
func (l *loader) copyChunk(ctx context.Context) error {
	var runs, events [][]any
	for len(events) < loadChunk && l.remaining > 0 {
		started := l.clock()
		group := l.tellGroup()
		events = append(events, l.interleave(group)...)
		for _, s := range group {
			runs = append(runs, runRow(s, started, l.clock()))
		}
	}
	copied, err := l.conn.CopyFrom(ctx, l.table("docket_runs"), runColumns, pgx.CopyFromRows(runs))
	if err != nil {
		return err
	}
	if copied != int64(len(runs)) {
		return errors.New("not all runs were copied")
	}
	_, err = l.conn.CopyFrom(ctx, l.table("docket_events"), eventColumns, pgx.CopyFromRows(events))
	return err
}

// tellGroup tells the runs of loadWriters writers, the last ones so that no
// events remain. What is left over is never less than a run can have.
func (l *loader) tellGroup() []*script {
	var group []*script
	for len(group) < loadWriters && l.remaining > 0 {
		s := tell(l.rng)
		if left := l.remaining - s.events(); left != 0 && left < 3 {
			s = tellStart(l.rng, min(l.remaining, 40))
			if left := l.remaining - s.events(); left != 0 && left < 3 {
				s = tellStart(l.rng, l.remaining)
			}
		}
		l.remaining -= s.events()
		group = append(group, s)
	}
	return group
}

// interleave is the runs' rows as their transitions would have committed in
// turn.
func (l *loader) interleave(group []*script) [][]any {
	var rows [][]any
	for i, more := 0, true; more; i++ {
		more = false
		for _, s := range group {
			if i >= len(s.transitions) {
				continue
			}
			more = true
			occurred := l.clock()
			for _, e := range s.transitions[i].events {
				rows = append(rows, l.eventRow(s, e, occurred))
			}
		}
	}
	return rows
}

func (l *loader) eventRow(s *script, e event, occurred time.Time) []any {
	payload := e.payload
	if l.filler != "" {
		payload = withFiller(payload, l.filler)
	}
	inserted := l.clock()
	l.written++
	return []any{
		s.runID, e.seq, e.kind, int32(e.step), null(e.node), null(e.channel), null(e.taskID),
		payload, e.metadata, occurred, inserted,
	}
}

// clock is the time of the next event.
func (l *loader) clock() time.Time {
	return l.from.Add(time.Duration(l.written) * l.interval).Truncate(time.Microsecond)
}

func runRow(s *script, started, updated time.Time) []any {
	last := s.transitions[len(s.transitions)-1]
	var wake, finished any
	switch {
	case last.wake == "terminal":
		finished = updated
	case last.status == "running":
		wake = updated
	}
	return []any{
		s.runID, null(s.tenant), s.graphID, s.graphHash, last.status, int32(last.step), state, last.checkpoint,
		last.checkpointType, wake, started, started, updated, finished,
	}
}

// withFiller adds a last entry "~": filler to an encoded map of fewer than 256
// entries whose keys sort before it.
func withFiller(payload []byte, filler string) []byte {
	at := len(emptyMap) - 1 // the map's size ends here
	filled := append([]byte(nil), payload...)
	filled[at]++
	return appendTerm(appendTerm(filled, "~"), filler)
}

// null is NULL for empty text.
func null(text string) any {
	if text == "" {
		return nil
	}
	return text
}
