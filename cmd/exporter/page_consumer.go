package main

import (
	"fmt"
	"strings"

	"github.com/docket-exporter/exporter/cursor"
)

// figuresOf are what matters most of a consumer.
func figuresOf(r *consumerReport, kept retentionReport) []fact {
	delivered := fact{Name: "Delivered", Value: grouped(r.EventsAccepted), More: "nothing yet"}
	if r.AcceptedAt != nil {
		delivered.More = "last " + ago(r.now, r.AcceptedAt)
	}
	if r.Kind == cursor.Backfill {
		return []fact{behindFigure(r), rateFigure(r), delivered}
	}
	return []fact{behindFigure(r), headroomFigure(r, kept), rateFigure(r), delivered}
}

func behindFigure(r *consumerReport) fact {
	f := fact{Name: "Behind", Value: unknown}
	if r.LagSeconds != nil {
		f.Value = rough(*r.LagSeconds)
		if *r.LagSeconds > onTheWay {
			f.Accent = "accent"
		}
	}
	switch {
	case r.LagEvents == nil:
	case *r.LagEvents == 0:
		f.More = "nothing waits"
	case !*r.LagExact:
		f.More = "at most " + grouped(*r.LagEvents) + " events wait"
	case *r.LagEvents == 1:
		f.More = "1 event waits"
	default:
		f.More = grouped(*r.LagEvents) + " events wait"
	}
	return f
}

func headroomFigure(r *consumerReport, kept retentionReport) fact {
	f := fact{Name: "Headroom", Value: unknown}
	switch {
	case kept.None:
		f.Value, f.More = "no limit", "nothing is deleted"
		return f
	case r.Headroom == nil:
		return f
	case *r.Headroom < 0:
		f.Value, f.More, f.Accent = "none", "late by "+rough(-*r.Headroom), "bad"
		return f
	}
	f.Value, f.More = rough(*r.Headroom), fmt.Sprintf("%.0f %% of %s", *r.Ratio*100, rough(*kept.Told))
	switch {
	case *r.Ratio < criticalRatio:
		f.Accent = "bad"
	case *r.Ratio < lowRatio:
		f.Accent = "warn"
	}
	if eta := r.LossETA; eta != nil && !eta.never() && float64(*eta) > 1.05**r.Headroom { // else it stands still, which the rate says
		f.More += ", lost in " + rough(float64(*eta)) + " at this rate"
	}
	return f
}

func rateFigure(r *consumerReport) fact {
	f := fact{Name: "Rate", Value: unknown}
	if r.Drain == nil {
		f.More = "needs a second reading"
		if r.LagUnknown != nil {
			f.More = ""
		}
		return f
	}
	f.Value = perSecond(r.Drain) + "/s"
	if r.Arrival != nil {
		f.More = perSecond(r.Arrival) + "/s arrive"
	}
	switch {
	case r.CatchUp == nil || *r.CatchUp == 0:
	case r.CatchUp.never():
		f.More += ", " + r.neverWords()
	default:
		f.More += ", caught up in " + rough(float64(*r.CatchUp))
	}
	f.More = strings.TrimPrefix(f.More, ", ")
	return f
}

// consumerFacts are the rest.
func consumerFacts(r *consumerReport) []fact {
	owner, epoch := oneLine(r.Owner), fmt.Sprintf("epoch %d", r.Epoch)
	if r.Unowned != nil {
		if owner != "" {
			epoch = "last " + owner + ", " + epoch
		}
		owner = "nobody for " + rough(*r.Unowned)
	}
	all := []fact{
		{Name: "Position", Value: shortened(r.Position)},
		{Name: "Owner", Value: owner, More: epoch},
		{Name: "Caught up", Value: ago(r.now, r.CaughtUpAt)},
		{Name: "Last poll", Value: ago(r.now, r.PolledAt)},
	}
	if r.InFlight > 0 {
		all = append(all, fact{Name: "In flight", Value: fmt.Sprintf("batch %s, %s", grouped(r.Batch), plural(int64(r.InFlight), "event")), More: "attempt " + attempt(r)})
	}
	return all
}

// consumerNotices are what holds a consumer up, or waits for a person.
func consumerNotices(r *consumerReport) (all []notice) {
	if p := r.Paused; p != nil {
		all = append(all, notice{Kind: "warn", Title: fmt.Sprintf("Paused by %s, %s", oneLine(p.By), ago(r.now, &p.At)), Lines: []string{oneLine(p.Detail)}})
	}
	if r.Losses > 0 {
		all = append(all, lossNotice(r))
	}
	if r.LastError != "" {
		all = append(all, notice{Kind: "warn", Title: "Last error, " + ago(r.now, r.LastErrorAt), Lines: []string{oneLine(r.LastError)}})
	}
	if r.DeadLetters > 0 {
		text := "Kept whole until somebody decides; the events behind go on."
		if r.DeadLettersHeld > 0 {
			text = fmt.Sprintf("%s of them wait behind an earlier one of their run.", grouped(r.DeadLettersHeld))
		}
		all = append(all, notice{Kind: "warn", Title: plural(r.DeadLetters, "dead letter") + ", the oldest from " + ago(r.now, r.DeadLetterOldest), Lines: []string{text}})
	}
	if r.OpenIDs > 0 {
		all = append(all, holeNotice(r))
	}
	return all
}

// mostLosses bounds the losses that are shown of a consumer.
const mostLosses = 5

func lossNotice(r *consumerReport) notice {
	n := notice{Kind: "bad", Title: "At most " + plural(r.LostEvents, "event") + " lost, in " + plural(r.Losses, "range") + " of ids"}
	for i := range r.OpenLosses {
		if i == mostLosses {
			n.Lines = append(n.Lines, fmt.Sprintf("And %d more.", len(r.OpenLosses)-i))
			break
		}
		l := &r.OpenLosses[i]
		n.Lines = append(n.Lines, fmt.Sprintf("Ids %s, inserted %s: %s Runs: %s.", idsOfLoss(l), window(l), sentenceOf(l.Reason), runsOfLoss(l.Runs)))
	}
	return n
}

// sentenceOf ends a text with a full stop.
func sentenceOf(text string) string {
	return strings.TrimSuffix(oneLine(text), ".") + "."
}

func holeNotice(r *consumerReport) notice {
	n := notice{Kind: "info", Title: plural(r.OpenIDs, "id") + " open", Lines: []string{"Handed out and not committed yet; delivered when they are. Nothing waits for them."}}
	if r.Unowned != nil {
		n.Title, n.Lines[0] = n.Title+" when it was last owned", "What became of them is found out when it is owned again."
	}
	if r.OldestHoleAt != nil {
		n.Title += ", the oldest for " + strings.TrimSuffix(ago(r.now, r.OldestHoleAt), " ago")
	}
	for i, h := range r.Holders {
		if i == mostHolders {
			n.Lines = append(n.Lines, fmt.Sprintf("And %d more.", len(r.Holders)-i))
			break
		}
		n.Lines = append(n.Lines, "Held by "+oneLine(describeHolder(h, r.now)))
	}
	return n
}
