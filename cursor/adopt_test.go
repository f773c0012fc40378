package cursor

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

func TestAdopt(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		must(t, f.BindSource(ctx, "public", 1))
		c, _ := f.claim("one")
		must(t, c.Begin(ctx, intent(t, 1, 1, "9")))
		must(t, c.Accept(ctx, exporter.Acceptance{Number: 1, To: at(t, "9-{[4,4]}"), Dead: ids(t, "{[2,3]}"), Mark: &exporter.Mark{
			Identity: exporter.Identity{RunID: "r", Seq: 9, EventID: 9}, Hash: sha256.Sum256(nil), InsertedAt: time.Now(),
		}}))
		seen := Seen{System: 1, Timeline: "00000001", Table: 3, Sequence: 4, WAL: 5}
		must(t, c.Renew(ctx, Heartbeat{Source: &seen, ReadAt: time.Now()}))
		must(t, c.Renew(ctx, Heartbeat{}))
		if got, _, err := f.SeenBy(ctx, "feed"); err != nil || got == nil || *got != seen {
			t.Fatalf("seen %+v, %v", got, err)
		}
		must(t, c.Begin(ctx, intent(t, 2, 1, "12-{[4,4]}")))
		must(t, c.Pause(ctx, &exporter.PauseError{Reason: exporter.PausedSourceChanged, Detail: "restored"}))

		must(t, f.Adopt(ctx, Adoption{System: 2, Consumers: []Adopter{{Name: "feed"}}, By: "eve", Reason: "failover"}))
		status := f.status()
		if status.Paused != nil || status.Mark != nil || status.Intent != nil || status.Position.String() != "9-{[4,4]}" || status.Batch != 3 || status.ReadAt == nil {
			t.Errorf("status %+v", status)
		}
		if got, _, err := f.SeenBy(ctx, "feed"); err != nil || got != nil {
			t.Errorf("seen %+v, %v", got, err)
		}
		must(t, f.CheckSource(ctx, "public", 2))
		if err := c.Accept(ctx, exporter.Acceptance{Number: 2, To: at(t, "12")}); !errors.Is(err, exporter.ErrFenced) {
			t.Errorf("the owner before: %v", err)
		}

		_, err := f.Pause(ctx, "feed", "ada", "holiday")
		must(t, err)
		back := at(t, "6")
		must(t, f.Adopt(ctx, Adoption{System: 2, Consumers: []Adopter{{"feed", &back}}, By: "eve", Reason: "restored"}))
		status = f.status()
		if status.Paused == nil || status.Paused.By != "ada" {
			t.Error("a person's pause was lifted")
		}
		if status.Position.String() != "6" || status.ReadAt != nil || f.count("{audit}", "command = 'source adopt'") != 4 {
			t.Errorf("position %s, read at %v", status.Position, status.ReadAt)
		}
		// All or nothing.
		if err := f.Adopt(ctx, Adoption{System: 3, Consumers: []Adopter{{Name: "feed"}, {Name: "nobody"}}, By: "eve", Reason: "r"}); !errors.Is(err, ErrNotFound) {
			t.Errorf("adopt for no consumer: %v", err)
		}
		must(t, f.CheckSource(ctx, "public", 2))
	})
}
