package reconcile

import (
	"cmp"
	"slices"

	exporter "github.com/docket-exporter/exporter"
)

// Verdicts on an event or a run.
const (
	Missing    = "missing"     // the source has it, the sink has not
	Differs    = "differs"     // the sink has it with another content
	Extra      = "extra"       // the sink has it, and the source never had
	DeadLetter = "dead_letter" // not in the sink: it is kept for a person, or one has given it up
	Repaired   = "repaired"    // was missing, was sent again, and is there
	Invented   = "invented"    // the source has not its event, and its key is not that of its identity
	Broken     = "broken"      // of a run: its rows in the source are not whole
)

// Finding is one event about which there is something to say.
type Finding struct {
	exporter.Identity
	Verdict string
}

// BrokenRun is a finished run whose rows in the source are not numbered from 1
// without a gap up to its last checkpoint.
type BrokenRun struct {
	RunID string
	Gaps  exporter.Ranges // seqs that it lacks
	Ended bool            // its last row is the checkpoint with which a run ends
}

// Result is the outcome of a comparison. Counts are exact; Findings and Broken
// name the first ten thousand of each, dead letters the first thousand.
type Result struct {
	Events   int64 // of the source, compared
	Copies   int64 // of the sink, within the ids compared
	Filtered int64 // rows of the source that the filter leaves out

	Missing     int64
	Differing   int64
	Extra       int64
	DeadLetters int64
	Repaired    int64 // of Missing
	Duplicates  int64 // copies after an event's first

	Unjudged      int64 // copies whose events the source no longer has: pruned, or their run was deleted
	Invented      int64 // copies whose events the source has not, with a key that is not that of their identity
	OutsideFilter int64 // copies of events that the filter leaves out now
	Undecodable   int64 // events that no sink can be given

	RunsWhole    int64 // finished, numbered without a gap, ended by their last checkpoint
	RunsOpen     int64 // not finished yet
	RunsUnjudged int64 // finished so long ago that Docket may have pruned some of their events
	RunsBroken   int64

	Findings   []Finding
	Broken     []BrokenRun
	Inventions []exporter.Identity // the first hundred of Invented
	Refused    []Refusal           // why missing events could not be repaired
	Windows    int                 // that were looked at again
}

// Refusal is a missing event that the sink did not take, or that was left out.
type Refusal struct {
	exporter.Identity
	Reason string
}

// Clean reports whether the sink holds what it should, or does now.
func (r *Result) Clean() bool {
	return r.Missing == r.Repaired && r.Differing == 0 && r.Extra == 0 && r.RunsBroken == 0
}

func (r *Result) find(id exporter.Identity, verdict string) {
	if verdict == DeadLetter && r.DeadLetters > mostLetters {
		return // they are listed elsewhere, and leave no room for what is not
	}
	if len(r.Findings) < mostListed {
		r.Findings = append(r.Findings, Finding{id, verdict})
	}
}

// sort puts findings into the order of runs.
func (r *Result) sort() {
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(a.Identity.Compare(b.Identity), cmp.Compare(a.Verdict, b.Verdict))
	})
	slices.SortFunc(r.Broken, func(a, b BrokenRun) int { return cmp.Compare(a.RunID, b.RunID) })
}
