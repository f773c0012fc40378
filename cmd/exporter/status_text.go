package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	exporter "github.com/docket-exporter/exporter"
)

// unknown stands for every figure that is not known.
const unknown = "unknown"

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

// rough is a number of seconds in its two largest units: 13d 4h, 3m 20s, 0.4s.
func rough(s float64) string {
	if s < 0 {
		return "-" + rough(-s)
	}
	if s < 10 && s != 0 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s), ".0") + "s"
	}
	const century = 100 * 365 * 24 * 3600
	total := int64(min(s, century))
	units := []struct {
		name string
		size int64
	}{{"d", 24 * 3600}, {"h", 3600}, {"m", 60}, {"s", 1}}
	for i, u := range units[:3] {
		if total < u.size {
			continue
		}
		text := fmt.Sprintf("%d%s", total/u.size, u.name)
		if rest := total % u.size / units[i+1].size; rest > 0 {
			text += fmt.Sprintf(" %d%s", rest, units[i+1].name)
		}
		return text
	}
	return fmt.Sprintf("%ds", total)
}

// grouped is a number with its thousands apart: 1,204,332.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// perSecond is a rate.
func perSecond(rate *float64) string {
	switch {
	case rate == nil:
		return unknown
	case *rate > 0 && *rate < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", *rate), ".0")
	default:
		return grouped(int64(*rate + 0.5))
	}
}

// oneLine keeps a message from the outside on its line, and what would steer a
// terminal, or turn the direction of a text, out of it.
func oneLine(s string) string {
	printable := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}
	return strings.Map(printable, strings.Join(strings.Fields(s), " "))
}

// shortenedIDs is in every text that shortened makes of ids.
const shortenedIDs = "ids from"

// shortened is a position or a set of ids for people: as it is while it is not
// too long for a line, else 189435-{1557 open ids from 186001 to 189430}, which
// no command takes for a position.
func shortened(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	at := max(strings.IndexByte(text, '{'), 0)
	ids, err := exporter.ParseRanges(text[at:])
	if err != nil || len(ids) == 0 {
		return text[:most] + "…"
	}
	what := shortenedIDs
	if at > 0 {
		what = "open " + what
	}
	return fmt.Sprintf("%s{%d %s %d to %d}", text[:at], ids.Count(), what, ids[0].Lo, ids[len(ids)-1].Hi)
}

// shortPosition is a position for people: one with many open ids is long.
func shortPosition(at exporter.Position) string { return shortened(at.String()) }

// inSchema is a name as psql wants it.
func inSchema(schema, name string) string {
	if settingName.MatchString(schema) && strings.ToLower(schema) == schema {
		return schema + "." + name
	}
	return pgx.Identifier{schema}.Sanitize() + "." + name
}

// describeHolder says who keeps ids open, and since when.
func describeHolder(h holder, now time.Time) string {
	return nameHolder(h) + ", since " + ago(now, &h.Since)
}

// nameHolder says who keeps ids open.
func nameHolder(h holder) string {
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
	return who
}

// attempt is the try at the batch in flight.
func attempt(r *consumerReport) string {
	if r.Attempt == 0 {
		return "-"
	}
	return strconv.Itoa(r.Attempt)
}
