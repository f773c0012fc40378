package exporter

import (
	"fmt"
	"strings"
	"time"
)

// Kinds of losses. They are stored words.
const (
	// LossDeliveryUnknown is rows of a batch in flight that were gone when it was
	// sent again after a crash: the sink may or may not have them.
	LossDeliveryUnknown = "delivery_unknown"
	// LossPruned is ids that may have been events which Docket's retention
	// deleted before they were read.
	LossPruned = "pruned"
)

// Loss is ids in which events are, or may be, gone.
type Loss struct {
	Kind    string
	IDs     Range  // from the first to the last
	Exactly Ranges // which of IDs; nil where that is not known
	Count   int64  // upper bound of the events: ids that were never used count as well
	Certain bool   // some of them are proven to have been events: see Runs

	Since, Until time.Time // when the events were inserted, on the source's clock; zero where that is not known
	Runs         []LostRun // which events are proven to be gone; at most a hundred runs
	Reason       string    // what was seen, for people
}

// LostRun is a run of which events are gone.
type LostRun struct {
	RunID string `json:"run_id"`
	First int64  `json:"first_seq"`
	Last  int64  `json:"last_seq,omitempty"` // 0 where no event of the run is left that would tell
}

// passLosses records the losses that b has found, and moves the position over
// exactly their ids, before anything behind them is delivered: a crash can
// neither forget nor repeat the record. b is to be read again afterwards. With
// HaltOnLoss the run ends.
func (r *run) passLosses(b *Batch) error {
	var ids Ranges
	for i := range b.Losses {
		ids = ids.Union(b.Losses[i].Exactly)
	}
	to := r.at.pass(ids)
	err := r.accept(recordDelivery, Acceptance{
		Number: r.number, To: to, Dead: r.dead.Union(ids).Newest(to.High-deadSpan, deadRanges),
		Mark: r.mark, Lost: b.Losses,
	})
	if err != nil {
		return err
	}
	return r.lost(b.Losses)
}

// lost tells of losses that have been recorded, and ends the run where that is
// wanted.
func (r *run) lost(losses []Loss) error {
	for i := range losses {
		l := &losses[i]
		r.Metrics.lost()
		r.Log.Error("events may be lost: a person should look at the record", "kind", l.Kind, "first_id", l.IDs.Lo, "last_id", l.IDs.Hi,
			"at_most", l.Count, "certain", l.Certain, "runs", runsText(l.Runs), "reason", l.Reason)
	}
	if len(losses) == 0 || !r.HaltOnLoss {
		return nil
	}
	l := &losses[0]
	return &PauseError{Reason: PausedPossibleLoss, Detail: fmt.Sprintf(
		"%s; nothing behind these ids is delivered: see `exporter cursor losses %s`, then `exporter cursor accept-loss %s --all`", l.Reason, r.Consumer, r.Consumer)}
}

// runsText names the first few runs.
func runsText(runs []LostRun) string {
	const most = 5
	var parts []string
	for i, x := range runs {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(runs)-most))
			break
		}
		parts = append(parts, x.String())
	}
	return strings.Join(parts, ", ")
}

// String names the run and its missing seqs: run-7/3-5.
func (x LostRun) String() string {
	switch x.Last {
	case 0:
		return fmt.Sprintf("%s/%d-", x.RunID, x.First)
	case x.First:
		return fmt.Sprintf("%s/%d", x.RunID, x.First)
	default:
		return fmt.Sprintf("%s/%d-%d", x.RunID, x.First, x.Last)
	}
}

// pass returns the position with ids done, and nothing else that was not done
// before: what lies between them above High stays open.
func (p Position) pass(ids Ranges) Position {
	if n := len(ids); n > 0 && ids[n-1].Hi > p.High {
		high := ids[n-1].Hi
		p = p.Advance(high, Ranges{{p.High + 1, high}}.Minus(ids))
	}
	return p.Fill(ids)
}
