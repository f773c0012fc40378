package docket_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database is a Docket database and one consumer that reads it.
type database struct {
	t      *testing.T
	dsn    string
	pool   *pgxpool.Pool
	source *docket.Source
	reader exporter.Source // takes the place of source where it is set
	at     exporter.Position
	got    []string // "run/seq" of every event delivered, in order
	last   exporter.Batch
	mark   *exporter.Mark // the latest
}

func open(t *testing.T, o docket.Options) *database {
	t.Helper()
	return openOn(t, pgtest.Database(t), o)
}

func openOn(t *testing.T, dsn string, o docket.Options) *database {
	t.Helper()
	read := dsn
	if strings.HasPrefix(t.Name(), "TestThroughPgBouncer/") {
		read = pgtest.PgBouncer(t, dsn, 2).DSN()
	}
	d := &database{t: t, dsn: dsn, pool: pgtest.PlainPool(t, read)}
	if o.Schema == "" {
		o.Schema = "public"
	}
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, dsn), o.Schema); err != nil {
		t.Fatal(err)
	}
	d.source = docket.New(d.pool, o).Impatient()
	return d
}

// session is one psql session.
type session struct {
	t *testing.T
	*pgx.Conn
}

func (d *database) session() *session { return &session{d.t, pgtest.Connect(d.t, d.dsn)} }

func (s *session) do(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.Conn, sql, args...)
}

const insertRun = `INSERT INTO docket_runs (run_id, tenant_id, graph_id, graph_hash, status, state, claim_token, claimed_at, inserted_at, started_at, updated_at)
	VALUES ($1, nullif($2, ''), $3, 'hash-of-' || $3, 'running', '\x83', gen_random_uuid(), now(), now(), now(), now()) ON CONFLICT DO NOTHING`

// runs makes the rows of some runs, as separate transactions.
func (s *session) runs(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.do(insertRun, id, "", "chain")
	}
}

// insert adds one event and returns its id.
func (s *session) insert(run string, seq int) int64 {
	s.t.Helper()
	return s.insertType(run, seq, "node_completed")
}

func (s *session) insertType(run string, seq int, kind string) int64 {
	s.t.Helper()
	return pgtest.Value[int64](s.t, s.Conn, `INSERT INTO docket_events (run_id, seq, type, step, payload, metadata, occurred_at, inserted_at)
		VALUES ($1, $2, $3, 0, $4, $5, now(), clock_timestamp()) RETURNING id`,
		run, seq, kind, docketsim.EncodeEvent(map[string]any{"attempt": 1}), docketsim.EncodeEvent(map[string]any{}))
}

// poll reads once and takes what it got as delivered.
func (d *database) poll() exporter.Batch {
	d.t.Helper()
	var source exporter.Source = d.source
	if d.reader != nil {
		source = d.reader
	}
	b, err := source.Poll(d.t.Context(), d.at)
	if err != nil {
		d.t.Fatalf("poll from %s: %v", d.at, err)
	}
	d.take(b)
	return b
}

func (d *database) take(b exporter.Batch) {
	d.t.Helper()
	if !b.To.Covers(d.at) {
		d.t.Fatalf("the position went back from %s to %s", d.at, b.To)
	}
	ids := b.To.Minus(d.at)
	for _, e := range b.Events {
		if !ids.Contains(e.ID) {
			d.t.Fatalf("event %d lies outside of the batch %s", e.ID, ids)
		}
		d.got = append(d.got, fmt.Sprintf("%s/%d", e.RunID, e.Seq))
	}
	d.at, d.last = b.To, b
	if b.Mark != nil {
		d.mark = b.Mark
	}
}

// drain polls until nothing is left.
func (d *database) drain() {
	d.t.Helper()
	for range 1000 {
		if b := d.poll(); b.Empty() && !b.More {
			return
		}
	}
	d.t.Fatal("a thousand polls did not reach the end")
}

// pollUntil polls until the position is reached.
func (d *database) pollUntil(want string) {
	d.t.Helper()
	pgtest.Eventually(d.t, 10*time.Second, func() error {
		if d.poll(); d.at.String() != want {
			return fmt.Errorf("position %s, want %s", d.at, want)
		}
		return nil
	})
}

func (d *database) wantGot(want ...string) {
	d.t.Helper()
	if !slices.Equal(d.got, want) {
		d.t.Fatalf("delivered %v, want %v", d.got, want)
	}
}

func (d *database) wantAt(want string) {
	d.t.Helper()
	if got := d.at.String(); got != want {
		d.t.Fatalf("position %s, want %s", got, want)
	}
}

func (d *database) wantPollError(want string) error {
	d.t.Helper()
	_, err := d.source.Poll(d.t.Context(), d.at)
	if err == nil || !strings.Contains(err.Error(), want) {
		d.t.Fatalf("poll: %v, want an error with %q", err, want)
	}
	return err
}
