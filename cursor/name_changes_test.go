package cursor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// Every name that a consumer had is told, in order, also of one that is gone or
// of which the audit does not tell.
func TestNameChanges(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		must(t, failed(f.CreateBackfill(ctx, Plan{Name: "old", Until: at(t, "9"), Spec: map[string]string{"consumer": "feed"}, By: "eve", Reason: "because"})))
		must(t, f.Rename(ctx, "feed", "stream", "eve", "because"))
		must(t, f.Remove(ctx, "old", "eve", "because"))
		must(t, failed(f.Create(ctx, Consumer{Name: "feed", By: "eve", Reason: "because"})))
		must(t, failed(f.Pause(ctx, "feed", "eve", "because")))
		pgtest.Exec(t, f.admin, f.sql(`INSERT INTO {consumers} (uid, name, high_id) VALUES ('ffffffff-ffff-ffff-ffff-ffffffffffff', 'silent', 0)`))
		changes, err := f.NameChanges(ctx)
		must(t, err)
		names := map[string]string{}
		var told []string
		for _, c := range changes {
			if names[c.UID] == "" {
				names[c.UID] = fmt.Sprintf("%s%d", c.Kind, len(names))
			}
			told = append(told, fmt.Sprintf("%s %s>%s %s", names[c.UID], c.Before, c.After, c.Spec))
		}
		want := []string{
			"live0 >feed ", `backfill1 >old {"consumer": "feed"}`, "live0 feed>stream ", `backfill1 old> {"consumer": "stream"}`, "live2 >feed ",
		}
		if len(told) != len(want)+3 || !slices.Equal(told[:len(want)], want) || !slices.Contains(told[len(want):], "live3 >silent ") {
			t.Errorf("changes are %q", told)
		}
	})
}
