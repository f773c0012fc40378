package cursor

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	exporter "github.com/docket-exporter/exporter"
)

func pruned(lo, hi int64) exporter.Loss {
	ids := exporter.Ranges{{Lo: lo, Hi: hi}}
	return exporter.Loss{
		Kind: exporter.LossPruned, IDs: ids[0], Exactly: ids, Count: ids.Count(), Certain: true,
		Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
		Runs: []exporter.LostRun{{RunID: "r", First: 3, Last: 5}, {RunID: "gone", First: 1}}, Reason: "ids are gone",
	}
}

func TestLossesAreRecordedWholeAndAccepted(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		c, _ := f.claim("a")
		unknown := exporter.Loss{Kind: exporter.LossDeliveryUnknown, IDs: exporter.Range{Lo: 40, Hi: 44}, Count: 2, Reason: "a crash"}
		must(t, c.Accept(ctx, exporter.Acceptance{To: at(t, "20"), Lost: []exporter.Loss{pruned(5, 9), pruned(12, 20)}}))
		must(t, c.Accept(ctx, exporter.Acceptance{To: at(t, "20"), Lost: []exporter.Loss{unknown}})) // the position stays
		list, err := f.Losses(ctx, "feed", true)
		must(t, err)
		var got []exporter.Loss
		for _, l := range list {
			got = append(got, l.Loss)
		}
		want := []exporter.Loss{pruned(5, 9), pruned(12, 20), unknown}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" {
			t.Fatal(diff)
		}

		// A loss has halted it: it goes on when the last one is accepted.
		must(t, c.Pause(ctx, &exporter.PauseError{Reason: exporter.PausedPossibleLoss, Detail: "ids are gone"}))
		a, err := f.AcceptLosses(ctx, "feed", []int64{list[1].ID}, "eve", "seen")
		must(t, err)
		if diff := cmp.Diff(Accepted{IDs: []int64{list[1].ID}, Left: 2}, a); diff != "" {
			t.Error(diff)
		}
		if _, err := f.AcceptLosses(ctx, "feed", []int64{list[0].ID, list[1].ID}, "eve", "again"); err == nil {
			t.Error("a loss was accepted twice")
		}
		if status := f.status(); status.Paused == nil || status.Losses != 2 {
			t.Errorf("status %+v", status)
		}
		a, err = f.AcceptLosses(ctx, "feed", nil, "eve", "all of them")
		must(t, err)
		if diff := cmp.Diff(Accepted{IDs: []int64{list[0].ID, list[2].ID}, Resumed: true}, a); diff != "" {
			t.Error(diff)
		}
		if status := f.status(); status.Paused != nil || status.Losses != 0 {
			t.Errorf("status %+v", status)
		}
		if n := f.count("{audit}", "command = 'accept-loss' AND who = 'eve' AND consumer = 'feed'"); n != 4 { // three losses and the consumer
			t.Errorf("%d audit rows", n)
		}
		list, err = f.Losses(ctx, "feed", false)
		must(t, err)
		if len(list) != 3 || list[0].AcceptedAt == nil || list[0].AcceptedBy != "eve" || list[1].Accepted != "seen" {
			t.Errorf("losses %+v", list)
		}
		if _, err := f.AcceptLosses(ctx, "none", nil, "eve", "x"); !errors.Is(err, ErrNotFound) {
			t.Errorf("accept of nobody's losses: %v", err)
		}
	})
}

// Accepting a loss resumes no consumer that is paused for another reason.
func TestAcceptingALossResumesOnlyWhatItHalted(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		must(t, c.Accept(t.Context(), exporter.Acceptance{To: at(t, "9"), Lost: []exporter.Loss{pruned(5, 9)}}))
		_, err := f.Pause(t.Context(), "feed", "eve", "maintenance")
		must(t, err)
		a, err := f.AcceptLosses(t.Context(), "feed", nil, "eve", "seen")
		must(t, err)
		if a.Resumed || f.status().Paused == nil {
			t.Errorf("resumed: %+v", a)
		}
	})
}

// The age of open ids outlives the owner.
func TestClaimKnowsTheAgeOfOpenIDs(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, state := f.claim("a")
		if state.HoleAge != 0 {
			t.Errorf("age %v without open ids", state.HoleAge)
		}
		oldest := 3 * time.Hour
		must(t, c.Renew(t.Context(), Heartbeat{Oldest: &oldest}))
		must(t, c.Release(t.Context(), false))
		if _, state = f.claim("b"); state.HoleAge < oldest || state.HoleAge > oldest+time.Minute {
			t.Errorf("age %v", state.HoleAge)
		}
	})
}
