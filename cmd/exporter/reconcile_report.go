package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sinks/file"
)

// Verdicts on a whole comparison.
const (
	verdictClean   = "clean"
	verdictDiffers = "different"
	verdictUnknown = "unknown"
	verdictEmpty   = "empty" // nothing to compare
)

// reconcileReport is what `reconcile` says; its JSON form is an interface for
// scripts.
type reconcileReport struct {
	Consumer string   `json:"consumer"`
	Sink     SinkKind `json:"sink"`
	Position string   `json:"position"`
	IDs      string   `json:"ids"` // the span that was compared; empty for nothing
	Content  bool     `json:"content"`
	Verdict  string   `json:"verdict"`

	Events        int64 `json:"events"`
	Missing       int64 `json:"missing"`
	Repaired      int64 `json:"repaired"`
	Differing     int64 `json:"differs"`
	Extra         int64 `json:"extra"`
	DeadLetters   int64 `json:"dead_letters"`
	Undecodable   int64 `json:"undecodable"`
	Filtered      int64 `json:"filtered"`
	Copies        int64 `json:"copies"`
	Duplicates    int64 `json:"duplicates"`
	Unjudged      int64 `json:"not_judged"`
	OutsideFilter int64 `json:"outside_filter"`
	AbovePosition int64 `json:"above_position"` // copies; 0 where --to is below it
	AboveTo       int64 `json:"above_to"`       // copies, where it is below the position
	Outside       int64 `json:"outside"`        // copies of events outside of the ids compared, and not above them
	Foreign       int64 `json:"foreign_lines"`  // of files, that are no events

	RunsWhole    int64 `json:"runs_whole"`
	RunsOpen     int64 `json:"runs_open"`
	RunsUnjudged int64 `json:"runs_not_judged"`
	RunsBroken   int64 `json:"runs_broken"`

	Runs    []runReport `json:"runs"`             // those that are not complete
	Places  []copyPlace `json:"places,omitempty"` // the first hundred copies that differ or are extra
	Refused []refusal   `json:"refused,omitempty"`
	Remarks []string    `json:"remarks,omitempty"`
	since   string      // --from
	clean   bool
}

// runReport is a run that is not complete. Verdict is the worst of what follows.
type runReport struct {
	RunID       string       `json:"run_id"`
	Verdict     string       `json:"verdict"`
	Missing     []eventPlace `json:"missing,omitempty"`
	Differs     []eventPlace `json:"differs,omitempty"`
	Extra       []eventPlace `json:"extra,omitempty"`
	DeadLetters []eventPlace `json:"dead_letter,omitempty"`
	Repaired    []eventPlace `json:"repaired,omitempty"`
	Gaps        []seqRange   `json:"source_lacks,omitempty"`
	Unended     bool         `json:"source_lacks_last_checkpoint,omitempty"`
}

type eventPlace struct {
	Seq     int64 `json:"seq"`
	EventID int64 `json:"event_id"`
}

type seqRange struct {
	First int64 `json:"first_seq"`
	Last  int64 `json:"last_seq"`
}

type refusal struct {
	RunID string `json:"run_id"`
	eventPlace
	Reason string `json:"reason"`
}

func (j *reconciliation) report(copies readable, r *reconcile.Result, places located) *reconcileReport {
	out := &reconcileReport{
		Consumer: j.consumer.Name, Sink: j.consumer.Sink, Position: j.status.Position.String(), Content: !j.identities, Verdict: verdictClean,
		Events: r.Events, Missing: r.Missing, Repaired: r.Repaired, Differing: r.Differing, Extra: r.Extra, DeadLetters: r.DeadLetters,
		Undecodable: r.Undecodable, Filtered: r.Filtered, Copies: r.Copies, Duplicates: r.Duplicates, Unjudged: r.Unjudged,
		OutsideFilter: r.OutsideFilter, RunsWhole: r.RunsWhole, RunsOpen: r.RunsOpen, RunsUnjudged: r.RunsUnjudged, RunsBroken: r.RunsBroken,
		Runs: runReports(r), Places: places.copies, Remarks: j.remarks(copies, places), Foreign: places.invented, clean: r.Clean(), since: j.from,
	}
	if f, ok := copies.(*file.Reader); ok {
		out.Foreign += f.Foreign()
	}
	switch len(j.judged) {
	case 0:
	case 1:
		out.IDs = fmt.Sprintf("%d to %d", j.judged[0].Lo, j.judged[0].Hi)
	default:
		out.IDs = spanOf(j.judged)
	}
	switch {
	case !out.clean:
		out.Verdict = verdictDiffers
	case out.Events == 0 && out.Copies == 0:
		out.Verdict = verdictEmpty
	}
	for _, x := range r.Refused {
		out.Refused = append(out.Refused, refusal{x.RunID, eventPlace{x.Seq, x.EventID}, x.Reason})
	}
	return out
}

// runReports groups findings, which come in order, by their runs.
func runReports(r *reconcile.Result) []runReport {
	runs, index := []runReport{}, map[string]int{}
	of := func(run string) *runReport {
		i, known := index[run]
		if !known {
			i = len(runs)
			index[run], runs = i, append(runs, runReport{RunID: run})
		}
		return &runs[i]
	}
	for _, f := range r.Findings {
		run, at := of(f.RunID), eventPlace{f.Seq, f.EventID}
		list := map[string]*[]eventPlace{
			reconcile.Missing: &run.Missing, reconcile.Differs: &run.Differs, reconcile.Extra: &run.Extra,
			reconcile.DeadLetter: &run.DeadLetters, reconcile.Repaired: &run.Repaired,
		}[f.Verdict]
		*list = append(*list, at)
	}
	for _, b := range r.Broken {
		run := of(b.RunID)
		run.Verdict, run.Unended = reconcile.Broken, !b.Ended
		for _, gap := range b.Gaps {
			run.Gaps = append(run.Gaps, seqRange{gap.Lo, gap.Hi})
		}
	}
	for i := range runs {
		runs[i].judge()
	}
	return runs
}

// judge sets the verdict: the worst first.
func (r *runReport) judge() {
	switch {
	case len(r.Missing) > 0:
		r.Verdict = reconcile.Missing
	case len(r.Differs) > 0:
		r.Verdict = reconcile.Differs
	case len(r.Extra) > 0:
		r.Verdict = reconcile.Extra
	case r.Verdict == reconcile.Broken:
	case len(r.Repaired) > 0:
		r.Verdict = reconcile.Repaired
	default:
		r.Verdict = reconcile.DeadLetter
	}
}

// details says what of a run is what.
func (r *runReport) details() string {
	var parts []string
	for _, x := range []struct {
		word string
		list []eventPlace
	}{
		{reconcile.Missing, r.Missing},
		{reconcile.Differs, r.Differs},
		{reconcile.Extra, r.Extra},
		{reconcile.Repaired, r.Repaired},
		{reconcile.DeadLetter, r.DeadLetters},
	} {
		if len(x.list) > 0 {
			parts = append(parts, x.word+" "+seqs(x.list))
		}
	}
	for _, gap := range r.Gaps {
		parts = append(parts, fmt.Sprintf("the source lacks %s", seqSpan(gap.First, gap.Last)))
	}
	if r.Unended {
		parts = append(parts, "the source lacks its last checkpoint")
	}
	return strings.Join(parts, "; ")
}

// seqs prints seqs as 3, 5-7.
func seqs(list []eventPlace) string {
	var set exporter.Ranges
	for _, at := range list {
		set = set.Union(exporter.Ranges{{Lo: at.Seq, Hi: at.Seq}})
	}
	texts := make([]string, len(set))
	for i, r := range set {
		texts[i] = seqSpan(r.Lo, r.Hi)
	}
	return strings.Join(texts, ", ")
}

func seqSpan(lo, hi int64) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d-%d", lo, hi)
}

// print shows the report, and gives the command its exit code.
func (r *reconcileReport) print(p *process, asJSON bool) error {
	var err error
	if asJSON {
		err = writeJSON(p.stdout, r)
	} else {
		err = r.text(p.stdout)
	}
	if err == nil && !r.clean {
		err = &silentError{exitPerson}
	}
	return err
}

// mostPrinted bounds the runs in a text.
const mostPrinted = 100

func (r *reconcileReport) text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Runs) > 0 {
		fmt.Fprintln(t, "RUN\tVERDICT\tSEQ")
	}
	for i := range r.Runs {
		if i == mostPrinted {
			fmt.Fprintf(t, "and %s more; --json lists them\t\t\n", plural(int64(len(r.Runs)-mostPrinted), "run"))
			break
		}
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t%s\t%s\n", clipped(run.RunID, 60), run.Verdict, clipped(run.details(), 300))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Places {
		fmt.Fprintln(w, r.Places[i].String())
	}
	if len(r.Places) == mostLocated {
		fmt.Fprintf(w, "these are the first %d copies that differ or are extra\n", mostLocated)
	}
	for i, x := range r.Refused {
		if i == mostPrinted {
			break
		}
		fmt.Fprintf(w, "not repaired: %s/%d: %s\n", clipped(x.RunID, 60), x.Seq, clipped(x.Reason, 300))
	}
	for _, line := range r.lines() {
		fmt.Fprintln(w, line)
	}
	verdict := "is " + r.Verdict
	if r.Verdict == verdictEmpty {
		verdict = "has nothing to compare"
	}
	if r.clean && r.Foreign > 0 {
		verdict += fmt.Sprintf(", but for %s", plural2(r.Foreign, "line that is no event", "lines that are no events"))
	}
	_, err := fmt.Fprintf(w, "%s %s\n", r.Consumer, verdict)
	return err
}

// lines are the counts in words; those that are 0 and say nothing are left out.
func (r *reconcileReport) lines() []string {
	what := "identities and contents"
	if !r.Content {
		what = "identities"
	}
	if r.IDs == "" {
		if r.since != "" {
			return []string{r.Consumer + " has delivered nothing since " + r.since}
		}
		return []string{r.Consumer + " has delivered nothing yet"}
	}
	lines := []string{fmt.Sprintf("compared the %s of %s, ids %s, with %s in the sink: %d missing, %d with another content, %d extra",
		what, plural(r.Events, "event"), r.IDs, plural2(r.Copies, "copy", "copies"), r.Missing, r.Differing, r.Extra)}
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(r.Repaired, "sent again, and there now: %d of the missing ones", r.Repaired)
	add(r.DeadLetters, "%s: kept as dead letters or given up by a person, not missing", plural(r.DeadLetters, "event"))
	add(r.Duplicates, "%s: their events are there more than once", plural2(r.Duplicates, "surplus copy", "surplus copies"))
	add(r.Unjudged, "not judged: %s of events that the source no longer has", plural2(r.Unjudged, "copy", "copies"))
	add(r.AbovePosition, "not judged: %s of events above the position", plural2(r.AbovePosition, "copy", "copies"))
	add(r.AboveTo, "not judged: %s of events above --to", plural2(r.AboveTo, "copy", "copies"))
	add(r.Outside, "not judged: %s of events outside of these ids", plural2(r.Outside, "copy", "copies"))
	add(r.OutsideFilter, "not judged: %s of events that the filter leaves out now", plural2(r.OutsideFilter, "copy", "copies"))
	runs := fmt.Sprintf("runs in the source: %d finished and whole, %d not finished, %d broken", r.RunsWhole, r.RunsOpen, r.RunsBroken)
	if r.RunsUnjudged > 0 {
		runs += fmt.Sprintf(", %d not judged because events of them may have been pruned", r.RunsUnjudged)
	}
	return append(append(lines, runs), r.Remarks...)
}

func plural2(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
