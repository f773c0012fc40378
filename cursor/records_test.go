package cursor

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// A dead letter keeps the whole row, a safe reason, and is recorded once.
func TestDeadLettersAndLosses(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		must(t, c.Begin(t.Context(), intent(t, 1, 1, "10")))
		must(t, c.Accept(t.Context(), exporter.Acceptance{
			Number: 1, To: at(t, "10"), Events: 1,
			DeadLetters: []exporter.DeadLetter{deadLetter(3), deadLetter(4)},
			Lost:        []exporter.Loss{{Kind: exporter.LossDeliveryUnknown, IDs: exporter.Range{Lo: 5, Hi: 9}, Count: 2, Reason: "two rows are gone"}},
		}))
		must(t, c.Accept(t.Context(), exporter.Acceptance{Number: 1, To: at(t, "12"), DeadLetters: []exporter.DeadLetter{deadLetter(4), deadLetter(12)}}))

		var e exporter.Event
		var tenant *string
		var reason, state, key, class string
		var attempts int
		var batch int64
		err := f.admin.QueryRow(t.Context(), f.sql(`SELECT event_id, run_id, seq, type, step, node_id, tenant_id, payload, metadata,
			occurred_at, inserted_at, reason, state, idempotency_key, class, attempts, batch FROM {dead_letters} WHERE event_id = 3`)).Scan(
			&e.ID, &e.RunID, &e.Seq, &e.Type, &e.Step, &e.NodeID.Value, &tenant, &e.EncodedPayload, &e.EncodedMetadata,
			&e.OccurredAt, &e.InsertedAt, &reason, &state, &key, &class, &attempts, &batch)
		must(t, err)
		want := event(3)
		if e.Identity() != want.Identity() || e.Type != want.Type || e.Step != 2 || e.NodeID.Value != "n" || tenant != nil ||
			string(e.EncodedPayload) != string(want.EncodedPayload) || string(e.EncodedMetadata) != string(want.EncodedMetadata) ||
			!e.OccurredAt.Equal(want.OccurredAt) || !e.InsertedAt.Equal(want.InsertedAt) {
			t.Errorf("the dead letter holds %+v, want %+v", e, want)
		}
		if key != want.Identity().Key() || state != "open" || class != "too_large" || attempts != 2 || batch != 1 {
			t.Errorf("key %s state %s class %s attempts %d batch %d", key, state, class, attempts, batch)
		}
		if !utf8.ValidString(reason) || strings.Contains(reason, "\x00") || utf8.RuneCountInString(reason) != maxReason {
			t.Errorf("reason is %q", reason)
		}
		if n := f.count("{dead_letters}", "true"); n != 3 {
			t.Errorf("%d dead letters, want 3: an event is recorded once", n)
		}
		if n := f.count("{losses}", "first_id = 5 AND last_id = 9 AND events = 2 AND kind = 'delivery_unknown' AND consumer = 'feed' AND batch = 1"); n != 1 {
			t.Errorf("%d loss records, want 1", n)
		}
	})
}

// When the dead letter cannot be written the position stays, and both go
// through once the cause is gone.
func TestPositionWaitsForItsDeadLetters(t *testing.T) {
	t.Parallel()
	role := "exporter_" + strings.ToLower(rand.Text())
	server := pgtest.Connect(t, pgtest.Database(t))
	pgtest.Exec(t, server, "CREATE ROLE "+role)
	t.Cleanup(func() { pgtest.Exec(detached{t}, server, "DROP ROLE "+role) }) // after its grants went with f's database
	f := newFixture(t, direct)
	pgtest.Exec(t, f.admin, "GRANT USAGE ON SCHEMA "+pgx.Identifier{schema}.Sanitize()+" TO "+role)
	f.exec("GRANT SELECT, INSERT, UPDATE ON {consumers}, {dead_letters}, {losses}, {audit} TO " + role)
	f.exec("REVOKE INSERT ON {dead_letters} FROM " + role)
	s := NewStore(poolAs(t, f.dsn, role), nil, schema)
	c, _, err := s.Claim(t.Context(), "feed", "a", ttl)
	must(t, err)
	must(t, c.Begin(t.Context(), intent(t, 1, 1, "10")))
	before := f.stored()
	a := exporter.Acceptance{Number: 1, To: at(t, "10"), Events: 2, DeadLetters: []exporter.DeadLetter{deadLetter(3)}}
	for range 2 {
		if err := c.Accept(t.Context(), a); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("accept without the right to write dead letters: %v", err)
		}
	}
	if after := f.stored(); after != before {
		t.Errorf("the row changed\nfrom %s\nto   %s", before, after)
	}
	f.exec("GRANT INSERT ON {dead_letters} TO " + role)
	must(t, c.Accept(t.Context(), a))
	if st := f.status(); !st.Position.Equal(a.To) || st.DeadLetters != 1 {
		t.Errorf("position %s, %d dead letters", st.Position, st.DeadLetters)
	}
}

func poolAs(t *testing.T, dsn, role string) *pgxpool.Pool {
	t.Helper()
	return pgtest.PlainPool(t, dsn, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["role"] = role })
}

// detached is a test whose context has not ended, for cleanups.
type detached struct{ testing.TB }

func (detached) Context() context.Context { return context.Background() }
