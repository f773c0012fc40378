package cursor

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// What a collection reads of the exporter's own tables does not grow with the
// dead letters that were decided and the losses of others.
func TestCollectionPlansAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	f.exec(`INSERT INTO {dead_letters} (consumer_uid, consumer, event_id, run_id, seq, type, step, payload, metadata, idempotency_key, batch, class, reason, attempts, state)
		SELECT uid, name, n, 'r', n, 't', 0, '\x83', '\x83', n::text, 1, 'refused', '', 1, CASE WHEN n % 400 = 0 THEN 'open' ELSE 'discarded' END
		FROM {consumers}, generate_series(1, 20000) n`)
	f.exec(`INSERT INTO {losses} (consumer_uid, consumer, kind, batch, first_id, last_id, events, reason)
		SELECT gen_random_uuid(), 'gone', 'delivery_unknown', 1, n, n, 1, '' FROM generate_series(1, 20000) n`)
	f.exec(`ANALYZE {dead_letters}`)
	f.exec(`ANALYZE {losses}`)
	for name, query := range map[string]string{"list": selectStatus, "scopes": selectScopes} {
		rows, err := f.admin.Query(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) "+f.sql(query))
		must(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		plan := strings.Join(lines, "\n")
		for _, whole := range []string{"Seq Scan on dead_letters", "Seq Scan on losses"} {
			if strings.Contains(plan, whole) {
				t.Errorf("%s: %s in\n%s", name, whole, plan)
			}
		}
	}
	if s := f.status(); s.DeadLettersOpen != 50 || s.Losses != 0 {
		t.Errorf("status %+v", s)
	}
}

// Only the owner tells what it delivers, and everybody reads it.
func TestFilterIsTheOwners(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	scope := func() Scope {
		t.Helper()
		all, err := f.Scopes(t.Context())
		must(t, err)
		return all[f.status().UID]
	}
	if s := scope(); s.Filter != nil || s.Until != nil || s.Finished != nil || s.LostEvents != 0 {
		t.Errorf("scope %+v of a consumer that nobody has owned", s)
	}
	first, _ := f.claim("one")
	must(t, first.SetFilter(t.Context(), Filter{Types: []string{"node_*", "!node_failed"}, Graphs: []string{`a"b`}}))
	if s := scope(); s.Filter == nil || s.Filter.All() || len(s.Filter.Types) != 2 || s.Filter.Graphs[0] != `a"b` {
		t.Errorf("filter %+v", s.Filter)
	}
	f.expire()
	second, _ := f.claim("two")
	must(t, second.SetFilter(t.Context(), Filter{}))
	if err := first.SetFilter(t.Context(), Filter{Types: []string{"x"}}); err == nil {
		t.Error("a stale owner's filter counts")
	}
	before := pgtest.Value[string](t, f.admin, f.sql("SELECT xmin::text FROM {consumers} WHERE name = 'feed'"))
	must(t, second.SetFilter(t.Context(), Filter{}))
	if after := pgtest.Value[string](t, f.admin, f.sql("SELECT xmin::text FROM {consumers} WHERE name = 'feed'")); after != before {
		t.Error("the same filter was written again")
	}
	f.exec(`UPDATE {consumers} SET until_high = 7, until_holes = '{[3,4)}', finished_at = now()`)
	if s := scope(); s.Filter == nil || !s.Filter.All() || s.Until.String() != "7-{[3,3]}" || s.Finished == nil {
		t.Errorf("scope %+v", s)
	}
}
