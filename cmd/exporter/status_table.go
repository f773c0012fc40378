package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/docket-exporter/exporter/cursor"
)

// mostHolders bounds the lines for transactions that hold ids open.
const mostHolders = 10

// writeStatus prints one line per consumer, then what needs more words.
func writeStatus(w io.Writer, r *statusReport, colour bool) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s\n  error    %s\n  next     %s\n\n", f.Subject, oneLine(f.Text), oneLine(f.Hint))
	}
	all := slices.Concat(r.Consumers, r.Backfills)
	if len(all) == 0 {
		b.WriteString("no consumer has a cursor yet; `exporter run` creates those in EXPORTER_CONSUMERS\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	writeTable(&b, r.Consumers, colour)
	if len(r.Backfills) > 0 {
		if len(r.Consumers) > 0 {
			b.WriteString("\n")
		}
		writeTable(&b, r.Backfills, colour)
	}
	for i := range all {
		writeDetails(&b, &all[i])
	}
	if r.Retention.Mismatch != "" {
		fmt.Fprintf(&b, "\nretention\n  %s\n  next     %s\n", r.Retention.Text, r.Retention.Hint)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// column is one of the table.
type column struct {
	title string
	value func(*consumerReport) string
	right bool
}

// columns are those in which there is something to show.
func columns(list []consumerReport) []column {
	any := func(has func(*consumerReport) bool) bool {
		for i := range list {
			if has(&list[i]) {
				return true
			}
		}
		return false
	}
	all := []column{
		{title: "CONSUMER", value: func(r *consumerReport) string { return r.Consumer }},
		{title: "STATE", value: (*consumerReport).label},
	}
	if any(func(r *consumerReport) bool { return r.Kind == cursor.Backfill }) {
		all = append(all, column{"DONE", (*consumerReport).percent, true})
	}
	all = append(all, column{"LAG", lagEvents, true}, column{"BEHIND", lagTime, true})
	if any(func(r *consumerReport) bool { return r.Headroom != nil }) {
		all = append(all, column{"HEADROOM", headroom, true})
	}
	if any(func(r *consumerReport) bool { return r.Drain != nil }) {
		all = append(all, column{"IN/S", func(r *consumerReport) string { return question(perSecond(r.Arrival)) }, true},
			column{"OUT/S", func(r *consumerReport) string { return question(perSecond(r.Drain)) }, true},
			column{"CAUGHT UP IN", func(r *consumerReport) string { return inTime(r.CatchUp) }, true})
	}
	return append(all,
		column{"HIGH", func(r *consumerReport) string { return strconv.FormatInt(r.High, 10) }, true},
		column{"OPEN IDS", func(r *consumerReport) string { return strconv.FormatInt(r.OpenIDs, 10) }, true},
		column{"EVENTS", func(r *consumerReport) string { return strconv.FormatInt(r.EventsAccepted, 10) }, true},
		column{"PROGRESS", func(r *consumerReport) string { return ago(r.now, r.ProgressAt) }, true},
		column{"OWNER", func(r *consumerReport) string { return question(oneLine(r.Owner)) }, false})
}

// writeTable prints aligned columns. The state has a colour, which a tab
// writer would count as text.
func writeTable(b *strings.Builder, list []consumerReport, colour bool) {
	if len(list) == 0 {
		return
	}
	cols := columns(list)
	widths := make([]int, len(cols))
	rows := make([][]string, len(list))
	for c, col := range cols {
		widths[c] = len(col.title)
		for i := range list {
			text := col.value(&list[i])
			rows[i] = append(rows[i], text)
			widths[c] = max(widths[c], utf8.RuneCountInString(text))
		}
	}
	line := func(values []string, paint func(string) string) {
		var cells []string
		for c, text := range values {
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(text))
			if paint != nil && cols[c].title == "STATE" {
				text = paint(text)
			}
			if cols[c].right {
				cells = append(cells, pad+text)
			} else {
				cells = append(cells, text+pad)
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	titles := make([]string, len(cols))
	for c, col := range cols {
		titles[c] = col.title
	}
	line(titles, nil)
	for i := range list {
		var paint func(string) string
		if colour {
			paint = list[i].Condition.paint
		}
		line(rows[i], paint)
	}
}

// paint gives a text the colour of the condition, on a terminal.
func (c condition) paint(text string) string {
	code := "32" // green
	switch c {
	case conditionLoss:
		code = "1;31"
	case conditionPaused, conditionUnowned, conditionStuck, conditionNearLoss:
		code = "33"
	case conditionBehind:
		code = "36"
	case conditionUnknown, conditionEmpty, conditionFinished, conditionCancelled:
		code = "2"
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// label is the condition in a word or two.
func (r *consumerReport) label() string {
	switch {
	case r.Condition == conditionPaused || r.Condition == conditionLoss && r.Paused != nil:
		return "paused, " + r.Paused.Reason
	case r.Condition == conditionUnowned && r.Detached != nil && *r.Detached:
		return "unowned, queued"
	case r.Condition == conditionUnowned && r.Detached != nil:
		return "unowned, stopped"
	case r.Condition == conditionHealthy:
		return "caught up"
	case r.Condition == conditionEmpty:
		return "nothing yet"
	case r.Condition == conditionUnknown:
		return "running"
	case r.Condition == conditionNearLoss:
		return "low headroom"
	default:
		return string(r.Condition)
	}
}

func (r *consumerReport) percent() string {
	if r.Done == nil {
		return "?"
	}
	return fmt.Sprintf("%.0f %%", *r.Done*100)
}

func lagEvents(r *consumerReport) string {
	switch {
	case r.LagEvents == nil:
		return "?"
	case !*r.LagExact:
		return "<=" + strconv.FormatInt(*r.LagEvents, 10)
	default:
		return strconv.FormatInt(*r.LagEvents, 10)
	}
}

func lagTime(r *consumerReport) string {
	if r.LagSeconds == nil {
		return "?"
	}
	return rough(*r.LagSeconds)
}

func headroom(r *consumerReport) string {
	if r.Headroom == nil {
		return "?"
	}
	return fmt.Sprintf("%s (%.0f %%)", rough(*r.Headroom), *r.Ratio*100)
}

func inTime(s *span) string {
	switch {
	case s == nil:
		return "?"
	case s.never():
		return "never"
	default:
		return rough(float64(*s))
	}
}

// question is the short form of what is not known.
func question(text string) string {
	if text == "" {
		return "-"
	}
	if text == unknown {
		return "?"
	}
	return text
}

func writeDetails(b *strings.Builder, r *consumerReport) {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if p := r.Paused; p != nil {
		add("paused   by %s %s: %s", oneLine(p.By), ago(r.now, &p.At), oneLine(p.Detail))
	}
	if r.Waiting != "" {
		add("waits    %s", oneLine(r.Waiting))
	}
	if r.LastError != "" {
		add("error    %s: %s", ago(r.now, r.LastErrorAt), oneLine(r.LastError))
	}
	if r.InFlight > 0 && r.Attempt > 1 && r.State == cursor.Running {
		add("sending  batch %d, %s, attempt %d", r.Batch, plural(int64(r.InFlight), "event"), r.Attempt)
	}
	if r.OpenIDs > 0 {
		add("open     %s", shortened(r.Position))
	}
	for i, h := range r.Holders {
		if i == mostHolders {
			add("held by  %d more", len(r.Holders)-i)
			break
		}
		add("held by  %s", oneLine(describeHolder(h, r.now)))
	}
	if r.DeadLetters > 0 {
		add("kept     %s as dead letters, see exporter deadletter list --consumer %s or the view %s", plural(r.DeadLetters, "event"), r.Consumer, inSchema(r.schema, "export_dead_letters"))
	}
	if r.Losses > 0 {
		add("lost     %s in which events may be gone, see exporter cursor losses %s or the table %s", plural(r.Losses, "range"), r.Consumer, inSchema(r.schema, "losses"))
	}
	for _, a := range r.Next {
		add("next     %s", a)
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n%s\n  %s\n", r.Consumer, strings.Join(lines, "\n  "))
	}
}
