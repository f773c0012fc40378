package cursor

import (
	"errors"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// A position never uncovers an id: the cursor refuses, and the database does
// when the cursor's belief is wrong.
func TestPositionOnlyMovesForward(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "20-{[5,6]}")}))
	before := f.stored()
	for _, to := range []string{"19", "20-{[5,7]}", "30-{[4,4]}", "30-{[5,5],[20,20]}"} {
		if err := c.Accept(t.Context(), exporter.Acceptance{To: at(t, to)}); err == nil || !strings.Contains(err.Error(), "are done and would be open again") {
			t.Errorf("accept at %s: %v", to, err)
		}
		if err := c.Begin(t.Context(), intent(t, 1, 1, to)); err == nil || !strings.Contains(err.Error(), "would be open again") {
			t.Errorf("begin to %s: %v", to, err)
		}
		wrong := c.twin()
		wrong.row.position = exporter.Position{}
		if err := wrong.Accept(t.Context(), exporter.Acceptance{To: at(t, to)}); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("accept at %s with a wrong belief: %v", to, err)
		}
	}
	if after := f.stored(); after != before {
		t.Errorf("the row changed\nfrom %s\nto   %s", before, after)
	}
	for _, to := range []string{"20-{[6,6]}", "30-{[6,6],[25,30]}", "31-{[25,29],[31,31]}"} {
		must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, to)}))
		if s := f.status(); !s.Position.Equal(at(t, to)) {
			t.Errorf("position is %s, want %s", s.Position, to)
		}
	}
}

// Batch numbers and attempts follow one another.
func TestBeginAndAcceptAreNumbered(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	refused := func(number int64, attempt int) {
		t.Helper()
		if err := c.Begin(t.Context(), intent(t, number, attempt, "10")); err == nil {
			t.Errorf("batch %d attempt %d began", number, attempt)
		}
	}
	refused(0, 1)
	refused(1, 2)
	refused(2, 1)
	must(t, c.Begin(t.Context(), intent(t, 1, 1, "10")))
	refused(1, 1)
	refused(1, 3)
	refused(2, 1)
	if err := c.Accept(t.Context(), exporter.Acceptance{Number: 2, To: at(t, "10")}); err == nil {
		t.Error("batch 2 was accepted while batch 1 is in flight")
	}
	if err := c.Reopen(t.Context(), at(t, "0"), nil); err == nil {
		t.Error("reopened while a batch is in flight, which would pass the reopened rows")
	}
}

// Reopen takes ids back that were given up, also together with a move.
func TestReopen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "20"), Dead: ids(t, "{[5,6],[9,9]}")}))
	must(t, c.Reopen(t.Context(), at(t, "22-{[6,6]}"), ids(t, "{[5,5],[9,9]}")))
	must(t, c.Release(t.Context(), false))
	_, state := f.claim("b")
	if !state.Position.Equal(at(t, "22-{[6,6]}")) || state.Dead.String() != "{[5,5],[9,9]}" {
		t.Errorf("position %s, dead %s", state.Position, state.Dead)
	}
}

// Dead ids are large: they are written once a second at most, and the rest on release.
func TestDeadIDsAreWrittenSeldom(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	dead := func() string {
		return pgtest.Value[string](t, f.admin, f.sql("SELECT dead::text FROM {consumers}"))
	}
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "20"), Dead: ids(t, "{[5,6]}")}))
	c.dead.at = time.Now().Add(time.Hour) // as if the write had just happened, on however slow a machine
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "30"), Dead: ids(t, "{[5,6],[25,25]}")}))
	if got := dead(); got != "{[5,7)}" {
		t.Errorf("dead is %s within the second", got)
	}
	c.dead.at = time.Now().Add(-time.Second)
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "31"), Dead: ids(t, "{[5,6],[25,25]}")}))
	if got := dead(); got != "{[5,7),[25,26)}" {
		t.Errorf("dead is %s after the second", got)
	}
	must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "32"), Dead: ids(t, "{[25,25]}")}))
	must(t, c.Release(t.Context(), false))
	if got := dead(); got != "{[25,26)}" {
		t.Errorf("dead is %s after the release", got)
	}
}

// A thousand writes leave a table of a few pages. Not parallel: a transaction
// of another test, also in another database, would keep its versions alive.
func TestTableStaysSmall(t *testing.T) {
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	for n := int64(1); n <= 500; n++ {
		to := exporter.Position{High: 10 * n}
		must(t, c.Begin(t.Context(), exporter.Intent{Number: n, Attempt: 1, To: to}))
		must(t, c.Accept(t.Context(), exporter.Acceptance{Number: n, To: to, Events: 10}))
	}
	if size := pgtest.Value[int](t, f.admin, "SELECT pg_relation_size($1::text::regclass)::int", f.sql("{consumers}")); size > 64<<10 {
		t.Errorf("consumers has %d bytes after 1000 writes", size)
	}
}

// While an old transaction is open, writes keep a distance.
func TestWritesAreSlowedByALongTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	f.longTransaction = time.Nanosecond
	c, _ := f.claim("a")
	conn := pgtest.Connect(t, f.dsn)
	pgtest.Exec(t, conn, "BEGIN")
	must(t, c.Renew(t.Context(), Heartbeat{}))
	began := time.Now()
	for high := range int64(4) {
		must(t, c.Accept(t.Context(), exporter.Acceptance{To: exporter.Position{High: high}}))
	}
	if took := time.Since(began); took < 3*slowestPace {
		t.Errorf("4 writes beside a long transaction took %s, want at least %s", took, 3*slowestPace)
	}
	pgtest.Exec(t, conn, "COMMIT")
	f.longTransaction = time.Hour
	must(t, c.Renew(t.Context(), Heartbeat{}))
	if c.slow.Load() {
		t.Error("writes are still slowed down after the transaction ended")
	}
}
