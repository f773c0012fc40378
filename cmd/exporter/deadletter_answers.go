package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/docket-exporter/exporter/cursor"
)

// What came of a decision, for each letter.
const (
	answerReplayed  = "replayed"  // the sink has it
	answerDiscarded = "discarded" // given up
	answerRefused   = "refused"   // it is decided already, or somebody else has it
	answerWaits     = "waits"     // an earlier event of its run must be decided first
	answerRejected  = "rejected"  // the sink will not take it; it stays
	answerPerson    = "person"    // the sink needs a person first; it stays
	answerFailed    = "failed"    // the sink could not be reached; it stays
)

type letterAnswer struct {
	ID       int64  `json:"id"`
	Consumer string `json:"consumer"`
	RunID    string `json:"run_id"`
	Seq      int64  `json:"seq"`
	EventID  int64  `json:"event_id"`
	Result   string `json:"result"`
	Detail   string `json:"detail,omitempty"`
}

// letterAnswers are collected while a command works.
type letterAnswers struct {
	all []letterAnswer
}

func newLetterAnswers() *letterAnswers { return &letterAnswers{} }

func (a *letterAnswers) add(d *cursor.DeadLetter, result, detail string) {
	a.all = append(a.all, letterAnswer{d.ID, d.Consumer, d.Event.RunID, d.Event.Seq, d.Event.ID, result, detail})
}

// addAll adds those of list that were asked for: done ones with the result, the
// others as refused.
func (a *letterAnswers) addAll(list []cursor.DeadLetter, asked, done []int64, result, otherwise string) {
	for i := range list {
		switch d := &list[i]; {
		case slices.Contains(done, d.ID):
			a.add(d, result, "")
		case slices.Contains(asked, d.ID):
			a.add(d, answerRefused, otherwise)
		}
	}
}

// print shows one line a letter, and gives the command its exit code: what was
// asked wrongly before what needs a person before what may pass.
func (a *letterAnswers) print(p *process, asJSON bool) error {
	if a.all == nil {
		a.all = []letterAnswer{}
	}
	if asJSON {
		if err := writeJSON(p.stdout, a.all); err != nil {
			return err
		}
	} else if len(a.all) == 0 {
		if err := say(p, "no dead letters of that kind"); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tCONSUMER\tRUN\tSEQ\tRESULT\tDETAIL")
		for _, x := range a.all {
			fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%s\n", x.ID, x.Consumer, clipped(x.RunID, 40), x.Seq, x.Result, clipped(x.Detail, 200))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		code    int
		results []string
	}{{exitUsage, []string{answerRefused}}, {exitPerson, []string{answerRejected, answerWaits, answerPerson}}, {exitFailed, []string{answerFailed}}} {
		if slices.ContainsFunc(a.all, func(l letterAnswer) bool { return slices.Contains(x.results, l.Result) }) {
			return &silentError{x.code}
		}
	}
	return nil
}

// mostPlanned bounds the lines of a plan.
const mostPlanned = 20

// planOf says what a decision would be about.
func planOf(verb string, list []cursor.DeadLetter, more string) string {
	var b strings.Builder
	n := 0
	for i := range list {
		d := &list[i]
		if !d.Undecided() {
			continue
		}
		if n++; n <= mostPlanned {
			fmt.Fprintf(&b, "\n  %d  %s  %s/%d  %s  %s", d.ID, d.Consumer, clipped(d.Event.RunID, 40), d.Event.Seq, d.State, oneLine(d.Class))
		}
	}
	if n > mostPlanned {
		fmt.Fprintf(&b, "\n  and %d more", n-mostPlanned)
	}
	return fmt.Sprintf("would %s %s%s:%s", verb, plural(int64(n), "dead letter"), more, b.String())
}
