package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
)

// mostHolders bounds the lines for transactions that hold ids open.
const mostHolders = 10

// printStatus prints one line per consumer, then what needs more words.
func printStatus(w io.Writer, reports []consumerReport) error {
	if len(reports) == 0 {
		_, err := fmt.Fprintln(w, "no consumer has a cursor yet; `exporter run` creates those in EXPORTER_CONSUMERS")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONSUMER\tSTATE\tLAG\tBEHIND\tHIGH\tOPEN IDS\tCAUGHT UP\tACCEPTED\tEVENTS\tBATCH\tATTEMPT")
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%s\n", r.Consumer, r.words(), lagEvents(r), lagTime(r), r.High, r.OpenIDs,
			ago(r.now, r.CaughtUpAt), ago(r.now, r.AcceptedAt), r.EventsAccepted, r.Batch, attempt(r))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var more strings.Builder
	for i := range reports {
		writeDetails(&more, &reports[i])
	}
	_, err := io.WriteString(w, more.String())
	return err
}

func writeDetails(b *strings.Builder, r *consumerReport) {
	var lines []string
	if p := r.Paused; p != nil {
		lines = append(lines, fmt.Sprintf("paused   by %s %s: %s", p.By, ago(r.now, &p.At), oneLine(p.Detail)))
	}
	if r.LastError != "" {
		lines = append(lines, fmt.Sprintf("error    %s: %s", ago(r.now, r.LastErrorAt), oneLine(r.LastError)))
	}
	if r.OpenIDs > 0 {
		lines = append(lines, "open     "+shortened(r.Position))
	}
	for i, h := range r.Holders {
		if i == mostHolders {
			lines = append(lines, fmt.Sprintf("held by  %d more", len(r.Holders)-i))
			break
		}
		lines = append(lines, "held by  "+oneLine(describeHolder(h, r.now)))
	}
	if r.DeadLetters > 0 {
		lines = append(lines, fmt.Sprintf("kept     %s as dead letters, see exporter deadletter list --consumer %s or the view %s", plural(r.DeadLetters, "event"), r.Consumer, inSchema(r.schema, "export_dead_letters")))
	}
	if r.Losses > 0 {
		lines = append(lines, fmt.Sprintf("lost     %s in which events may be gone, see exporter cursor losses %s or the table %s", plural(r.Losses, "range"), r.Consumer, inSchema(r.schema, "losses")))
	}
	if r.Next != "" {
		lines = append(lines, "next     "+r.Next)
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n%s\n  %s\n", r.Consumer, strings.Join(lines, "\n  "))
	}
}

// inSchema is a name as psql wants it.
func inSchema(schema, name string) string {
	if settingName.MatchString(schema) && strings.ToLower(schema) == schema {
		return schema + "." + name
	}
	return pgx.Identifier{schema}.Sanitize() + "." + name
}

func describeHolder(h holder, now time.Time) string {
	who := fmt.Sprintf("pid %d", h.PID)
	switch {
	case h.Prepared != "":
		who = fmt.Sprintf("prepared transaction %q", h.Prepared)
	case h.PID == 0:
		who = "transaction " + h.Transaction
	}
	if h.Application != "" {
		who += fmt.Sprintf(" %q", h.Application)
	}
	if h.User != "" {
		who += " user " + h.User
	}
	if h.State != "" {
		who += ", " + h.State
	}
	return who + ", since " + ago(now, &h.Since)
}

func attempt(r *consumerReport) string {
	if r.Attempt == 0 {
		return "-"
	}
	return strconv.Itoa(r.Attempt)
}

// ago is a time as a person asks for it, on the database's clock.
func ago(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return "never"
	}
	d := max(now.Sub(*t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs ago", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0fm ago", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh ago", d.Hours())
	default:
		return t.UTC().Format("2006-01-02 15:04Z")
	}
}

// oneLine keeps a message from the outside on its line, and what would steer a
// terminal out of it.
func oneLine(s string) string {
	printable := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}
	return strings.Map(printable, strings.Join(strings.Fields(s), " "))
}

func shortened(position string) string {
	const most = 120
	if len(position) <= most {
		return position
	}
	return position[:most] + "…"
}
