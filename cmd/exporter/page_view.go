package main

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/retention"
)

// view is a report in words, as the template shows it.
type view struct {
	CSS template.CSS
	JS  template.JS

	Condition condition
	Summary   string
	Title     string
	Who       string // which process tells
	At        string
	AtTime    string // of At, for machines
	Notices   []notice
	Consumers []consumerView
	Backfills []consumerView
	Facts     []fact
}

// notice is something that a person should read.
type notice struct {
	Kind  string // warn, bad or info
	Title string
	Lines []string
	Next  []advice
}

// fact is a name and what is known of it.
type fact struct {
	Name, Value, More string
	Accent            string // class of the value
}

type consumerView struct {
	ID        string
	Name      string
	Condition condition
	Words     string
	Bar       bar
	Percent   string // of a backfill
	Figures   []fact
	Facts     []fact
	Notices   []notice
	Next      []advice
}

func viewOf(r *statusReport) view {
	v := view{Condition: r.worst(), Summary: r.summary(), Who: whoOf(r.Process)}
	v.Title = v.Summary + " · Docket exporter"
	v.At, v.AtTime = "never yet", ""
	if !r.At.IsZero() {
		v.At, v.AtTime = r.At.Format("15:04:05")+" UTC", r.At.Format(time.RFC3339)
	}
	v.Notices = noticesOf(r)
	for i := range r.Consumers {
		v.Consumers = append(v.Consumers, consumerViewOf(&r.Consumers[i], r.Retention))
	}
	for i := range r.Backfills {
		v.Backfills = append(v.Backfills, consumerViewOf(&r.Backfills[i], r.Retention))
	}
	slices.SortStableFunc(v.Consumers, func(a, b consumerView) int {
		return slices.Index(conditionOrder[:], a.Condition) - slices.Index(conditionOrder[:], b.Condition)
	})
	v.Facts = factsOf(r)
	return v
}

func whoOf(p processReport) string {
	who := "exporter " + p.Command
	if p.Replica != "" {
		who += " on " + oneLine(p.Replica)
	}
	return who
}

// noticesOf are those about everything.
func noticesOf(r *statusReport) (all []notice) {
	if w := r.Process.Waiting; w != "" {
		all = append(all, notice{Kind: "warn", Title: "This process does not export yet", Lines: []string{w}})
	}
	if u := r.Unknown; u != nil {
		all = append(all, notice{
			Kind: "bad", Title: "The exporter's database does not tell", Next: []advice{{"See what is wrong with it:", []string{"exporter check"}}},
			Lines: []string{"How far consumers are is unknown " + since(u, "since this process started") + ".", u.Error},
		})
	}
	said := map[string]bool{}
	for _, f := range r.Findings {
		said[f.Text] = true
		all = append(all, notice{Kind: "bad", Title: "The " + f.Subject + " needs a person", Lines: []string{upperFirst(oneLine(f.Text)) + ".", upperFirst(oneLine(f.Hint)) + "."}})
	}
	for _, list := range [][]consumerReport{r.Consumers, r.Backfills} {
		for i := range list {
			if u := list[i].LagUnknown; u != nil && !said[u.Error] {
				said[u.Error] = true
				all = append(all, notice{Kind: "warn", Title: "How far behind is unknown", Lines: []string{"Unknown " + since(u, "since this process started") + ".", u.Error}})
			}
		}
	}
	if r.Retention.Mismatch != "" {
		all = append(all, notice{Kind: "warn", Title: "The retention is not what was told", Lines: []string{r.Retention.Text, r.Retention.Hint}})
	}
	if len(r.HeldBy) > 0 {
		n := notice{Kind: "warn", Title: "Docket's pruner is held off", Lines: []string{"All pruning of the schema pauses. It is held by " + strings.Join(r.HeldBy, ", ") + "."}}
		if g := r.Guard; g != nil && g.State == retention.GuardHeld {
			n.Lines = append(n.Lines, fmt.Sprintf("This process holds it since %s, because %s has little headroom.", clock(g.Since), g.Consumer))
		}
		all = append(all, n)
	}
	if g := r.Guard; g != nil && g.Refused != "" {
		all = append(all, notice{Kind: "bad", Title: "Docket's pruner cannot be held off", Lines: []string{oneLine(g.Refused)}})
	}
	return all
}

func since(u *unknownReport, never string) string {
	if u.Since == nil {
		return never
	}
	return "since " + clock(*u.Since)
}

func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// factsOf are those about everything.
func factsOf(r *statusReport) []fact {
	all := []fact{
		{Name: "Process", Value: whoOf(r.Process), More: "since " + clock(r.Process.StartedAt)},
		{Name: "Version", Value: r.Process.Version},
		{Name: "Retention", Value: r.Retention.Text},
	}
	if g := r.Guard; g != nil {
		all = append(all, fact{Name: "Guard", Value: guardText(g)})
	}
	if s := r.Source; s != nil {
		all = append(all, fact{Name: "Source", Value: "schema " + oneLine(s.DocketSchema), More: fmt.Sprintf("server %d", s.System)})
	}
	return all
}

func guardText(g *guardStatus) string {
	if g.Mode == GuardOff {
		return "off: Docket's pruner is never held off"
	}
	return fmt.Sprintf("%s; holds Docket's pruner off below %s of headroom", g.State, rough(g.Below))
}

func consumerViewOf(r *consumerReport, kept retentionReport) consumerView {
	if r.Kind == cursor.Backfill {
		kept = retentionReport{} // no retention threatens it
	}
	v := consumerView{
		ID: "consumer-" + r.Consumer, Name: r.Consumer, Condition: r.Condition, Words: upperFirst(r.Words),
		Bar: barOf(r, kept), Figures: figuresOf(r, kept), Facts: consumerFacts(r), Notices: consumerNotices(r), Next: asSentences(r.Next),
	}
	if r.Kind == cursor.Backfill {
		v.Percent = unknown
		if r.Done != nil {
			v.Percent = r.percent()
		}
	}
	return v
}

// asSentences makes advice begin as a sentence does, and lead to its commands.
func asSentences(all []advice) []advice {
	out := slices.Clone(all)
	for i := range out {
		out[i].Text = upperFirst(out[i].Text)
		if len(out[i].Run) > 0 {
			out[i].Text += ":"
		}
	}
	return out
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
