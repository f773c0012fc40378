package retention

import (
	"fmt"
	"strings"
	"time"
)

// Format prints a duration as a person writes it, to the second: 14d, 1d12h,
// 90s as 1m30s. 0 is 0s.
func Format(d time.Duration) string {
	const day = 24 * time.Hour
	d = d.Truncate(time.Second)
	if d < 0 {
		return "-" + Format(-d)
	}
	days := ""
	if d >= day {
		days = fmt.Sprintf("%dd", d/day)
		d %= day
	}
	if d == 0 && days != "" {
		return days
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return days + s
}

// Text says what was found, with both figures, and what to do about it; the
// hint is empty where nothing is wrong.
func (v Verdict) Text() (text, hint string) {
	told, observed := Format(v.Events), Format(v.Observed)
	switch {
	case v.Mismatch == KeptLong:
		return fmt.Sprintf("RETENTION_EVENTS is %s, but the oldest event is %s old", told, observed),
			"set RETENTION_EVENTS to Docket's event_retention (none when no pruner runs), or see why the pruner is behind"
	case v.Mismatch == GoneEarly:
		return fmt.Sprintf("RETENTION_EVENTS is %s, but the oldest event is only %s old, and events of runs that are younger than %s are gone", told, observed, told),
			"set RETENTION_EVENTS to Docket's event_retention: while it is told too long, warnings of loss come too late"
	case v.Mismatch == RunsLong:
		return fmt.Sprintf("RETENTION_RUNS is %s, but the oldest finished run was last changed %s ago", Format(v.Runs), Format(v.OldestRun)),
			"set RETENTION_RUNS to Docket's run_retention, or see why the pruner is behind"
	case v.Events == 0:
		return "RETENTION_EVENTS is none: events are taken as kept for ever", ""
	case v.Empty:
		return fmt.Sprintf("RETENTION_EVENTS is %s; there is no event to compare it with", told), ""
	case v.Observed < v.Events/2 && v.LowestID > 1:
		return fmt.Sprintf("RETENTION_EVENTS is %s; the oldest event is %s old, which proves nothing yet", told, observed), ""
	default:
		return fmt.Sprintf("RETENTION_EVENTS is %s; the oldest event is %s old", told, observed), ""
	}
}
