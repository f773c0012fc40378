package docket_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

// rounds scales the tests that repeat at random.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ROUNDS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROUNDS=%q is not a number of rounds", text)
	}
	return n
}

// world is the model: what writers did, and what must have been delivered.
type world struct {
	*database
	rng     *rand.Rand
	writers []*modelWriter
	admin   *session
	next    map[string]int  // the next seq of each run
	locked  map[string]bool // runs with an open transition: Docket commits them one after the other
	want    map[string]bool // committed and not pruned before delivery
	seen    map[string]bool
	made    int // runs
}

type modelWriter struct {
	*session
	open bool
	rows []string // run/seq inserted in the open transaction
	held []string // runs it has locked
	next map[string]int
}

// TestRandomInterleavings lets writers, a pruner and a crashing consumer act
// at random at every statement boundary of the polls, on a real server, and
// checks after each seed that nothing is missing, doubled or out of order.
func TestRandomInterleavings(t *testing.T) {
	w := &world{
		database: open(t, docket.Options{}), next: map[string]int{}, locked: map[string]bool{},
		want: map[string]bool{}, seen: map[string]bool{},
	}
	w.admin = w.session()
	for range 4 {
		w.writers = append(w.writers, &modelWriter{session: w.session(), next: map[string]int{}})
	}
	acting := false
	pool := stepPool(t, w.dsn, func(sql string) func() {
		if !acting || stepName(sql) == "" {
			return nil
		}
		steps := w.rng.IntN(3)
		if steps == 0 {
			return nil
		}
		return func() {
			for range steps {
				w.act()
			}
		}
	})
	seeds := 200 * rounds(t)
	for seed := range seeds {
		w.rng = rand.New(rand.NewPCG(uint64(seed), 1))
		limits := docket.Limits{Events: 1 + w.rng.IntN(8)}
		w.source = docket.New(pool, docket.Options{Limits: limits}).Impatient()
		acting = true
		for range 2 + w.rng.IntN(4) {
			w.act()
			w.readOnce(pool, limits)
		}
		acting = false
		for _, x := range w.writers {
			w.end(x)
		}
		w.settle(seed, pool, limits)
	}
	t.Logf("%d seeds, %d events, position %s", seeds, len(w.seen), w.at)
}

// act lets a random actor take one step.
func (w *world) act() {
	x := w.writers[w.rng.IntN(len(w.writers))]
	switch n := w.rng.IntN(20); {
	case n < 11:
		w.write(x)
	case n < 15:
		w.end(x)
	case n < 16:
		x.do("SELECT nextval('docket_events_id_seq')") // burns an id, now or when the transaction ends
	case n < 17:
		w.burn(x)
	case n < 18:
		w.prune()
	default:
	}
}

// write inserts the next events of some run in the writer's transaction.
func (w *world) write(x *modelWriter) {
	if !x.open {
		x.do("BEGIN")
		x.open = true
	}
	run := fmt.Sprintf("run-%d", w.made-w.rng.IntN(4))
	if w.locked[run] && !slices.Contains(x.held, run) {
		return
	}
	if w.next[run] == 0 {
		w.made++
		run = fmt.Sprintf("run-%d", w.made)
		w.admin.runs(run)
		w.next[run] = 1
	}
	if !slices.Contains(x.held, run) {
		x.held, w.locked[run] = append(x.held, run), true
		x.next[run] = w.next[run]
	}
	for range 1 + w.rng.IntN(2) {
		x.insert(run, x.next[run])
		x.rows = append(x.rows, fmt.Sprintf("%s/%d", run, x.next[run]))
		x.next[run]++
	}
}

// end commits or rolls back.
func (w *world) end(x *modelWriter) {
	if !x.open {
		return
	}
	commit := w.rng.IntN(4) > 0
	if commit {
		x.do("COMMIT")
		for _, row := range x.rows {
			w.want[row] = true
		}
	} else {
		x.do("ROLLBACK")
	}
	for _, run := range x.held {
		delete(w.locked, run)
		if commit {
			w.next[run] = x.next[run]
		}
	}
	x.open, x.rows, x.held, x.next = false, nil, nil, map[string]int{}
}

// burn draws an id for a row that exists already.
func (w *world) burn(x *modelWriter) {
	if x.open {
		return // it could wait for a row of another open transaction
	}
	x.do(`INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		SELECT run_id, seq, type, step, payload, metadata, occurred_at, inserted_at FROM docket_events ORDER BY id LIMIT 1
		ON CONFLICT (run_id, seq) DO NOTHING`)
}

// prune deletes some of what has been delivered, and now and then a row that
// has not, whose loss is then expected.
func (w *world) prune() {
	var run string
	var seq int
	if w.admin.QueryRow(w.t.Context(), `DELETE FROM docket_events WHERE id = (SELECT id FROM docket_events ORDER BY id LIMIT 1) RETURNING run_id, seq`).Scan(&run, &seq) == nil {
		delete(w.want, fmt.Sprintf("%s/%d", run, seq))
	}
}

// readOnce polls; the consumer may crash after the batch was begun and read it
// again, with other limits, from the positions alone.
func (w *world) readOnce(pool *pgxpool.Pool, limits docket.Limits) exporter.Batch {
	b, err := w.source.Poll(w.t.Context(), w.at)
	if err != nil {
		w.t.Fatalf("poll from %s: %v", w.at, err)
	}
	if w.rng.IntN(6) == 0 {
		w.source = docket.New(pool, docket.Options{Limits: limits}).Impatient()
		again, err := w.source.Replay(w.t.Context(), b.From, b.To)
		if err != nil {
			w.t.Fatal(err)
		}
		if again.Rows > b.Rows {
			w.t.Fatalf("the batch %s to %s grew from %d to %d rows", b.From, b.To, b.Rows, again.Rows)
		}
		again.More = b.More
		b = again
	}
	w.deliver(b)
	return b
}

func (w *world) deliver(b exporter.Batch) {
	if !b.To.Covers(w.at) {
		w.t.Fatalf("the position went back from %s to %s", w.at, b.To)
	}
	last := map[string]int64{}
	for _, e := range b.Events {
		row := fmt.Sprintf("%s/%d", e.RunID, e.Seq)
		if w.seen[row] {
			w.t.Fatalf("%s came twice", row)
		}
		if e.Seq <= last[e.RunID] {
			w.t.Fatalf("%s came after seq %d", row, last[e.RunID])
		}
		if later := fmt.Sprintf("%s/%d", e.RunID, e.Seq+1); w.seen[later] {
			w.t.Fatalf("%s came after %s", row, later)
		}
		w.seen[row], last[e.RunID] = true, e.Seq
	}
	w.at = b.To
}

// settle reads to the end and compares with the model.
func (w *world) settle(seed int, pool *pgxpool.Pool, limits docket.Limits) {
	for n := 0; ; n++ {
		if b := w.readOnce(pool, limits); b.Empty() && !b.More {
			break
		}
		if n == 1000 {
			w.t.Fatalf("seed %d: no end at %s", seed, w.at)
		}
	}
	for row := range w.want {
		if !w.seen[row] {
			w.t.Fatalf("seed %d: %s was committed and never came; position %s", seed, row, w.at)
		}
	}
	if len(w.at.Holes) != 0 {
		w.t.Fatalf("seed %d: open ids %s although every transaction has ended", seed, w.at)
	}
	clear(w.want) // seen stays: nothing may come twice in any later seed
	high := pgtest.Value[int64](w.t, w.admin.Conn, `SELECT last_value FROM docket_events_id_seq`)
	if seed%20 != 0 { // waiting for the server's disk at each seed would take long
		return
	}
	pgtest.Eventually(w.t, 10*time.Second, func() error {
		if w.readOnce(pool, limits); w.at.High != high {
			return fmt.Errorf("seed %d: position %s, but the sequence is at %d", seed, w.at, high)
		}
		return nil
	})
}
