package cursor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A replica counts until its time is over or it withdraws; paused consumers
// count for nobody, and those without a live lease are free.
func TestRoster(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		for _, name := range []string{"paused", "free"} {
			f.create(name)
		}
		f.claim("a")
		if _, _, err := f.Claim(ctx, "paused", "a", ttl); err != nil {
			t.Fatal(err)
		}
		must(t, failed(f.Pause(ctx, "paused", "eve", "maintenance")))
		must(t, f.Announce(ctx, "a", []string{"feed", "paused", "free"}, ttl))
		must(t, f.Announce(ctx, "b", []string{"free"}, ttl))
		must(t, f.Announce(ctx, "b", []string{"free", "feed"}, ttl))
		must(t, f.Announce(ctx, "gone", []string{"feed"}, time.Millisecond))
		f.exec("UPDATE {replicas} SET seen_until = clock_timestamp() - interval '1 second' WHERE name = 'gone'")
		f.check(Roster{
			Replicas: []Replica{
				{Name: "a", Consumers: []string{"feed", "paused", "free"}, Owns: []string{"feed"}},
				{Name: "b", Consumers: []string{"free", "feed"}, Owns: []string{}},
			},
			Free: []string{"free"},
		})
		must(t, f.Withdraw(ctx, "b"))
		f.expire()
		f.check(Roster{
			Replicas: []Replica{{Name: "a", Consumers: []string{"feed", "paused", "free"}, Owns: []string{}}},
			Free:     []string{"feed", "free"},
		})
		f.exec("UPDATE {replicas} SET seen_until = clock_timestamp() - interval '2 days' WHERE name = 'gone'")
		must(t, f.Announce(ctx, "a", nil, ttl))
		if n := f.count("{replicas}", "true"); n != 1 {
			t.Errorf("%d replicas are remembered, want 1", n)
		}
	})
}

func (f *fixture) check(want Roster) {
	f.t.Helper()
	got, err := f.Roster(f.t.Context())
	must(f.t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("roster (-want +got):\n%s", diff)
	}
}
