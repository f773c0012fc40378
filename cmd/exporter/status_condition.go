package main

import (
	"fmt"
	"strings"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// condition is how a consumer fares, in one word.
type condition string

// The conditions, the worst first.
const (
	conditionLoss      condition = "loss"         // events may be lost, and nobody has taken note
	conditionPaused    condition = "paused"       // by a person or by the exporter
	conditionUnowned   condition = "unowned"      // no process works on it
	conditionStuck     condition = "stuck"        // its owner tries the same thing again
	conditionNearLoss  condition = "low_headroom" // much of the retention is used up
	conditionUnknown   condition = "unknown"      // how far behind it is cannot be told
	conditionBehind    condition = "behind"       // events wait that are no longer on their way
	conditionEmpty     condition = "empty"        // nothing was there to deliver yet
	conditionHealthy   condition = "healthy"      // everything is delivered, or on its way
	conditionFinished  condition = "finished"     // a backfill that has reached its end
	conditionCancelled condition = "cancelled"    // a backfill that a person has ended
)

// onTheWay is the age in seconds up to which an undelivered event counts as on
// its way.
const onTheWay = 5

// Shares of the retention below which headroom is a matter for a person, and
// an urgent one. The alerts HeadroomLow and HeadroomCritical have the same.
const (
	lowRatio      = 0.5
	criticalRatio = 0.2
)

func (r *consumerReport) condition() condition {
	switch {
	case r.Losses > 0:
		return conditionLoss
	case r.State == cursor.Finished:
		return conditionFinished
	case r.State == cursor.Cancelled:
		return conditionCancelled
	case r.Paused != nil:
		return conditionPaused
	case r.State == cursor.Unowned:
		return conditionUnowned
	case r.LastError != "":
		return conditionStuck
	case r.Ratio != nil && *r.Ratio < lowRatio:
		return conditionNearLoss
	case r.LagEvents == nil:
		return conditionUnknown
	case r.LagSeconds == nil || *r.LagSeconds > onTheWay:
		return conditionBehind
	case *r.LagEvents == 0 && r.EventsAccepted == 0:
		return conditionEmpty
	default:
		return conditionHealthy
	}
}

// troubled reports whether somebody should look.
func (c condition) troubled() bool {
	switch c {
	case conditionLoss, conditionPaused, conditionUnowned, conditionStuck, conditionNearLoss:
		return true
	default:
		return false
	}
}

// sentence is the condition for a person.
func (r *consumerReport) sentence() string {
	switch r.Condition {
	case conditionLoss:
		if r.Paused != nil {
			return "events may be lost; " + r.Paused.words()
		}
		return "events may be lost"
	case conditionFinished, conditionCancelled:
		return string(r.Condition)
	case conditionPaused:
		return r.Paused.words()
	case conditionUnowned:
		return r.unownedSentence()
	case conditionStuck:
		return "stuck: the same is tried again until it works"
	case conditionUnknown:
		return "running; how far behind is unknown"
	case conditionBehind, conditionNearLoss:
		return r.behindSentence()
	case conditionEmpty:
		return "nothing to deliver yet"
	default:
		return "caught up"
	}
}

// unownedSentence tells a backfill that waits for its turn from one that stays
// where it is until somebody begins it again.
func (r *consumerReport) unownedSentence() string {
	switch {
	case r.Detached == nil:
		return "unowned: no process works on it"
	case *r.Detached:
		return "unowned: queued for `exporter run`"
	default:
		return "unowned: stopped in the foreground"
	}
}

func (r *consumerReport) behindSentence() string {
	text := "behind"
	if r.LagSeconds != nil {
		text = rough(*r.LagSeconds) + " behind"
	}
	switch {
	case r.CatchUp == nil:
		return text
	case r.CatchUp.never():
		return text + ", " + r.neverWords()
	case *r.CatchUp == 0:
		return text
	default:
		return text + ", caught up in about " + rough(float64(*r.CatchUp))
	}
}

// words say who, or why.
func (p *pauseReport) words() string {
	if p.Reason == exporter.PausedByPerson {
		return "paused by " + oneLine(p.By)
	}
	return "paused: " + strings.ReplaceAll(p.Reason, "_", " ")
}

// neverWords say why it does not catch up.
func (r *consumerReport) neverWords() string {
	if r.Drain != nil && *r.Drain == 0 {
		return "not moving"
	}
	return "losing ground"
}

// words is the state and the owner as a sentence fragment.
func (r *consumerReport) words() string {
	switch r.State {
	case cursor.Paused:
		return "paused, " + r.Paused.Reason
	case cursor.Running:
		return "running on " + r.Owner
	default:
		return r.State
	}
}

// advice is something to do: words, and the commands for it.
type advice struct {
	Text string   `json:"text"`
	Run  []string `json:"run,omitempty"`
}

// String is the advice on one line.
func (a advice) String() string {
	if len(a.Run) == 0 {
		return a.Text
	}
	return a.Text + ": " + strings.Join(a.Run, ", then ")
}

// next says what a person can do about the condition.
func (r *consumerReport) next() (all []advice) {
	add := func(text string, run ...string) { all = append(all, advice{text, run}) }
	name := r.Consumer
	resume := "exporter consumer resume " + name + " --reason TEXT"
	if text := r.deletionWords(); text != "" {
		add(text)
	}
	switch {
	case r.State == cursor.Finished || r.State == cursor.Cancelled:
	case r.Kind == cursor.Backfill && r.Paused != nil:
		add("see what it waits for, and when it may go on", "exporter backfill show "+name, "exporter backfill resume "+name+" --reason TEXT")
	case r.Kind == cursor.Backfill && r.State == cursor.Unowned:
		add("see what it waits for", "exporter backfill show "+name)
	case r.Paused != nil && r.Paused.Reason == exporter.PausedByPerson:
		add("when it may go on", resume)
	case r.Paused != nil && r.Paused.Reason == exporter.PausedPossibleLoss:
		// below, with the losses
	case r.Paused != nil && r.Paused.Reason == exporter.PausedSourceChanged:
		add("compare the source with what was read from it", "exporter source show", "exporter source adopt --reason TEXT")
	case r.Paused != nil && (r.Paused.Reason == exporter.PausedDeadLetters || r.Paused.Reason == exporter.PausedHeldEvents):
		add("see what is refused and why, and decide", "exporter deadletter list --consumer "+name, resume)
	case r.Paused != nil:
		add("put right what the reason says, then", "exporter check", resume)
	case r.State == cursor.Unowned:
		add("start `exporter run` with " + name + " in EXPORTER_CONSUMERS; if one runs, see its log")
	case r.LastError != "":
		add("see whether sink and databases can be reached; the batch is tried again until it is accepted", "exporter check")
	}
	if r.Losses > 0 {
		add("see which events may be lost, and note that somebody has", "exporter cursor losses "+name,
			"exporter cursor accept-loss "+name+" --all --reviewed-by WHO --reason TEXT")
	}
	if r.DeadLetters > 0 && (r.Paused == nil || r.Paused.Reason != exporter.PausedDeadLetters && r.Paused.Reason != exporter.PausedHeldEvents) {
		add("decide about the dead letters", "exporter deadletter list --consumer "+name)
	}
	if r.OpenIDs > 0 && len(r.Holders) > 0 {
		add("nothing waits for the open ids; if what holds them is stuck, in Docket's database", endHolder(r.Holders[0]))
	}
	return all
}

// deletionWords say that Docket deletes what a consumer that does not run has
// not read; empty while that is far off.
func (r *consumerReport) deletionWords() string {
	if r.Kind == cursor.Backfill || r.Paused == nil && r.State != cursor.Unowned || r.Headroom == nil || *r.Ratio >= criticalRatio {
		return ""
	}
	if *r.Headroom <= 0 {
		return "first of all: events that it has not read are older than Docket keeps them, since " + rough(-*r.Headroom) + "; Docket deletes them, and more with every minute until it runs"
	}
	return "soon: in " + rough(*r.Headroom) + " Docket begins to delete events that it has not read"
}

// endHolder is the statement that ends a transaction.
func endHolder(h holder) string {
	switch {
	case h.Prepared != "":
		return "ROLLBACK PREPARED '" + strings.ReplaceAll(oneLine(h.Prepared), "'", "''") + "';"
	case h.PID != 0:
		return fmt.Sprintf("SELECT pg_terminate_backend(%d);", h.PID)
	default:
		return "SELECT gid FROM pg_prepared_xacts; then ROLLBACK PREPARED"
	}
}
