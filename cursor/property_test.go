package cursor

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// Two owners with crashes, takeovers, lost answers and writes that arrive late,
// in any order: the stored position covers only ids that a sink accepted, and
// never uncovers one, except where somebody set it.
func TestNoInterleavingLosesAnID(t *testing.T) {
	f := newFixture(t, direct)
	// The database itself watches, so that no write in between goes unseen.
	f.exec("CREATE TABLE public.regressions (old text, new text)")
	f.exec(`CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF new.revision <= old.revision OR new.epoch < old.epoch OR new.batch < old.batch OR
		   new.batch = old.batch AND new.epoch > old.epoch AND (new.high_id, new.holes) IS DISTINCT FROM (old.high_id, old.holes) OR
		   new.epoch = old.epoch AND (
		      new.high_id < old.high_id OR NOT new.holes <@ old.holes + int8multirange(int8range(old.high_id, new.high_id, '(]')))
		THEN INSERT INTO public.regressions VALUES (old::text, new::text); END IF;
		RETURN new; END $$`)
	f.exec("CREATE TRIGGER watch BEFORE UPDATE OF high_id, holes, batch, revision, epoch ON {consumers} FOR EACH ROW EXECUTE FUNCTION public.watch()")
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := newModel(rt, f, fmt.Sprintf("run%d", run))
		rt.Repeat(map[string]func(*rapid.T){
			"claim": m.claim, "begin": m.begin, "accept": m.accept, "move": m.move, "crash": m.crash,
			"release": m.release, "arrive late": m.arrive, "set": m.set,
			"": m.check,
		})
	})
	if n := pgtest.Value[int](t, f.admin, "SELECT count(*)::int FROM public.regressions"); n != 0 {
		t.Errorf("%d writes went back, for example %s", n, pgtest.Value[string](t, f.admin, "SELECT old || ' -> ' || new FROM public.regressions LIMIT 1"))
	}
}

// model is one consumer and what is known of it beside the database.
type model struct {
	f         *fixture
	name      string
	owners    [2]*Cursor
	delivered exporter.Position // ids done for good reason: accepted by a sink, filtered, or passed by a set
	late      []func()          // writes on their way
	numbers   map[int64]string  // accepted batch numbers and where they led
}

func newModel(t *rapid.T, f *fixture, name string) *model {
	if _, err := f.Create(f.t.Context(), Consumer{Name: name, By: "t", Reason: "t"}); err != nil {
		t.Fatal(err)
	}
	return &model{f: f, name: name, numbers: map[int64]string{}}
}

// owner draws one of the two processes, with or without a cursor.
func (m *model) owner(t *rapid.T) int { return rapid.IntRange(0, 1).Draw(t, "owner") }

// forward draws a position that covers p: a few ids on, some of them open,
// some holes filled.
func (m *model) forward(t *rapid.T, p exporter.Position) exporter.Position {
	high := p.High + rapid.Int64Range(0, 5).Draw(t, "step")
	open := m.some(t, "open", p.High+1, high)
	return p.Advance(high, open).Fill(m.some(t, "filled", 1, p.High))
}

func (m *model) some(t *rapid.T, label string, lo, hi int64) exporter.Ranges {
	var out exporter.Ranges
	for id := lo; id <= hi; id++ {
		if rapid.IntRange(0, 3).Draw(t, label) == 0 {
			out = out.Append(exporter.Range{Lo: id, Hi: id})
		}
	}
	return out
}

// deliver notes that the ids between two positions reached the sink.
func (m *model) deliver(from, to exporter.Position) {
	m.delivered = m.delivered.Advance(to.High, exporter.Ranges{{Lo: 1, Hi: to.High}}).Fill(to.Minus(from))
}

func (m *model) claim(t *rapid.T) {
	i := m.owner(t)
	if rapid.Bool().Draw(t, "expired") {
		m.f.exec("UPDATE {consumers} SET lease_until = clock_timestamp() - interval '1 second' WHERE name = $1 AND owner IS NOT NULL", m.name)
	}
	c, _, err := m.f.Claim(m.f.t.Context(), m.name, string(rune('a'+i)), ttl)
	var owned *OwnedError
	if err != nil && !errors.As(err, &owned) {
		t.Fatal(err)
	}
	if err == nil {
		m.owners[i] = c
	}
}

// do makes a write in one of the ways a network offers: normally, with its
// answer lost and made again, or only started, to arrive later or never.
func (m *model) do(t *rapid.T, i int, write func(c *Cursor) error) {
	c := m.owners[i]
	switch rapid.SampledFrom([]string{"normal", "normal", "answer lost", "late"}).Draw(t, "way") {
	case "answer lost":
		_ = write(c.twin())
	case "late":
		twin := c.twin()
		m.late = append(m.late, func() { _ = write(twin) })
		if rapid.Bool().Draw(t, "crash meanwhile") {
			m.owners[i] = nil
			return
		}
	}
	if err := write(c); errors.Is(err, exporter.ErrFenced) {
		m.owners[i] = nil // it stops
	} else if err != nil {
		t.Fatal(err)
	}
}

func (m *model) begin(t *rapid.T) {
	i := m.owner(t)
	c := m.owners[i]
	if c == nil {
		return
	}
	in := exporter.Intent{Number: c.row.batch + 1, Attempt: 1, To: m.forward(t, c.row.position)}
	if old := c.row.intent; old != nil {
		in = *old
		in.Attempt = c.row.attempts + 1
	}
	m.do(t, i, func(c *Cursor) error { return c.Begin(m.f.t.Context(), in) })
}

func (m *model) accept(t *rapid.T) {
	i := m.owner(t)
	c := m.owners[i]
	if c == nil || c.row.intent == nil {
		return
	}
	number, to := c.row.batch, c.row.intent.To
	m.deliver(c.row.position, to)
	m.do(t, i, func(c *Cursor) error {
		err := c.Accept(m.f.t.Context(), exporter.Acceptance{Number: number, To: to, Events: 1})
		if err == nil {
			if led, ok := m.numbers[number]; ok && led != to.String() {
				t.Errorf("batch %d was accepted at %s and at %s", number, led, to)
			}
			m.numbers[number] = to.String()
		}
		return err
	})
}

func (m *model) move(t *rapid.T) {
	i := m.owner(t)
	c := m.owners[i]
	if c == nil || c.row.intent != nil {
		return
	}
	to := m.forward(t, c.row.position)
	m.deliver(c.row.position, to) // filtered rows count as done
	m.do(t, i, func(c *Cursor) error { return c.Accept(m.f.t.Context(), exporter.Acceptance{To: to}) })
}

func (m *model) crash(t *rapid.T) { m.owners[m.owner(t)] = nil }

func (m *model) release(t *rapid.T) {
	i := m.owner(t)
	if m.owners[i] == nil {
		return
	}
	abandoned := rapid.Bool().Draw(t, "abandoned")
	m.do(t, i, func(c *Cursor) error { return c.Release(m.f.t.Context(), abandoned) })
	m.owners[i] = nil
}

func (m *model) arrive(t *rapid.T) {
	if len(m.late) == 0 {
		return
	}
	n := rapid.IntRange(0, len(m.late)-1).Draw(t, "which")
	write := m.late[n]
	m.late = append(m.late[:n:n], m.late[n+1:]...)
	write()
}

func (m *model) set(t *rapid.T) {
	to := exporter.Position{High: rapid.Int64Range(0, 20).Draw(t, "to")}
	if err := m.f.Set(m.f.t.Context(), m.name, to, true, "t", "t"); err != nil {
		t.Fatal(err)
	}
	m.deliver(exporter.Position{}, to)
}

func (m *model) check(t *rapid.T) {
	s, err := m.f.Get(m.f.t.Context(), m.name)
	if err != nil {
		t.Fatal(err)
	}
	if lost := s.Position.Minus(m.delivered); len(lost) > 0 {
		t.Fatalf("position %s passes %s, which nobody delivered", s.Position, lost)
	}
}
