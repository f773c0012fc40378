package cursor

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// schema needs quoting and holds a dot, a quote and a space.
const schema = `we"ird.Schema x`

// ttl is long enough that no lease expires by itself during a test.
const ttl = time.Minute

// fixture is a Store on a fresh database, with one consumer called feed.
type fixture struct {
	*Store
	t     testing.TB
	dsn   string
	admin *pgxpool.Pool // direct, to look and to meddle
}

func newFixture(t testing.TB, through func(dsn string) string) *fixture {
	t.Helper()
	dsn := pgtest.Database(t)
	if _, _, err := migrations.Apply(t.Context(), pgtest.Connect(t, dsn), schema); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dsn: dsn, admin: pgtest.Pool(t, dsn)}
	via := through(dsn)
	f.Store = NewStore(execPool(t, via, 4), execPool(t, via, 1), schema)
	f.create("feed")
	return f
}

// execPool is configured as the exporter does it.
func execPool(t testing.TB, dsn string, size int32) *pgxpool.Pool {
	t.Helper()
	return pgtest.PlainPool(t, dsn, func(config *pgxpool.Config) { config.MaxConns = size })
}

func direct(dsn string) string { return dsn }

// bothWays runs a test on a direct connection and through PgBouncer.
func bothWays(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	t.Run("direct", func(t *testing.T) { test(t, newFixture(t, direct)) })
	t.Run("pgbouncer", func(t *testing.T) {
		test(t, newFixture(t, func(dsn string) string { return pgtest.PgBouncer(t, dsn, 2).DSN() }))
	})
}

func (f *fixture) create(name string) {
	f.t.Helper()
	created, err := f.Create(f.t.Context(), Consumer{Name: name, By: "tester", Reason: "test"})
	if err != nil || !created {
		f.t.Fatalf("create %s: created %v, %v", name, created, err)
	}
}

func (f *fixture) claim(owner string) (*Cursor, exporter.State) {
	f.t.Helper()
	c, state, err := f.Claim(f.t.Context(), "feed", owner, ttl)
	if err != nil {
		f.t.Fatal(err)
	}
	return c, state
}

// expire makes the database believe that the lease of all consumers has run out.
func (f *fixture) expire() {
	f.t.Helper()
	f.exec("UPDATE {consumers} SET lease_until = clock_timestamp() - interval '1 millisecond' WHERE owner IS NOT NULL")
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.admin, f.sql(sql), args...)
}

// stored is the whole row of feed as text, to see that nothing changed.
func (f *fixture) stored() string {
	f.t.Helper()
	return pgtest.Value[string](f.t, f.admin, f.sql("SELECT to_jsonb(c)::text FROM {consumers} c WHERE name = 'feed'"))
}

func (f *fixture) status() Status {
	f.t.Helper()
	s, err := f.Get(f.t.Context(), "feed")
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) count(table, where string) int {
	f.t.Helper()
	return pgtest.Value[int](f.t, f.admin, f.sql("SELECT count(*)::int FROM "+table+" WHERE "+where))
}

// twin is the same owner with the same belief: what it writes is a write of
// this epoch whose answer the original does not get, or gets late.
func (c *Cursor) twin() *Cursor {
	return &Cursor{
		store: c.store, name: c.name, uid: c.uid, epoch: c.epoch, owner: c.owner, ttl: c.ttl,
		row: c.row, begun: c.begun, dead: c.dead, renewed: c.renewed,
	}
}

func at(t testing.TB, text string) exporter.Position {
	t.Helper()
	p, err := exporter.ParsePosition(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ids(t testing.TB, text string) exporter.Ranges {
	t.Helper()
	r, err := exporter.ParseRanges(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func intent(t testing.TB, number int64, attempt int, to string) exporter.Intent {
	return exporter.Intent{Number: number, Attempt: attempt, To: at(t, to), Events: 3, Rows: 4, Hash: [32]byte{byte(number), 7}}
}

func event(id int64) exporter.Event {
	when := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	return exporter.Event{
		ID: id, RunID: strings.Repeat("long run ", 500), Seq: id, Type: "node_completed", Step: 2,
		NodeID: exporter.Text{Value: "n", Present: true}, OccurredAt: when, InsertedAt: when.Add(time.Second),
		EncodedPayload: []byte{131, 104, 0}, EncodedMetadata: []byte{131, 106},
	}
}

func deadLetter(id int64) exporter.DeadLetter {
	return exporter.DeadLetter{
		Rejection: exporter.Rejection{Event: event(id), Class: "too_large", Reason: "413 \x00\xff" + strings.Repeat("é", 600)},
		Attempts:  2,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
