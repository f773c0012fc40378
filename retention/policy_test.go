package retention_test

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/retention"
)

const day = 24 * time.Hour

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func sight(oldest time.Duration, change ...func(*retention.Sight)) retention.Sight {
	s := retention.Sight{Now: now, Oldest: now.Add(-oldest), LowestID: 7}
	for _, c := range change {
		c(&s)
	}
	return s
}

func gone(n, of int) func(*retention.Sight) {
	return func(s *retention.Sight) { s.Gone, s.Young = n, of }
}

func TestJudge(t *testing.T) {
	week := retention.Policy{Events: 7 * day}
	for _, x := range []struct {
		name      string
		policy    retention.Policy
		sight     retention.Sight
		want      retention.Mismatch
		effective time.Duration
		text      string
	}{
		{"for ever", retention.Policy{}, sight(900 * day), retention.Agrees, 0, "none"},
		{"empty", week, retention.Sight{Now: now}, retention.Agrees, 7 * day, "no event"},
		{"as told", week, sight(7 * day), retention.Agrees, 7 * day, "the oldest event is 7d old"},
		{"a little late", week, sight(7*day + 16*time.Hour), retention.Agrees, 7 * day, ""},
		{"late", week, sight(8 * day), retention.KeptLong, 8 * day, "RETENTION_EVENTS is 7d, but the oldest event is 8d old"},
		{"late while it is held off", week, sight(8*day, func(s *retention.Sight) { s.Held = true }), retention.Agrees, 8 * day, ""},
		{"idle, then a little", week, sight(time.Minute, gone(0, 3)), retention.Agrees, 7 * day, "proves nothing"},
		{"young", week, sight(time.Minute, func(s *retention.Sight) { s.LowestID = 1 }), retention.Agrees, 7 * day, "1m old"},
		{"told too long", week, sight(day, gone(20, 20)), retention.GoneEarly, day, "RETENTION_EVENTS is 7d, but the oldest event is only 1d old"},
		{"a person deleted a run", week, sight(day, gone(1, 20)), retention.Agrees, 7 * day, ""},
		{"all is gone", week, retention.Sight{Now: now, Gone: 20, Young: 20}, retention.Agrees, 7 * day, ""},
		{
			"runs kept",
			retention.Policy{Events: 7 * day, Runs: 30 * day},
			sight(day, func(s *retention.Sight) { s.OldestRun = now.Add(-40 * day) }), retention.RunsLong, 7 * day, "RETENTION_RUNS is 30d, but the oldest finished run was last changed 40d ago",
		},
	} {
		v := retention.Judge(x.policy, x.sight)
		text, hint := v.Text()
		if v.Mismatch != x.want || v.Effective != x.effective || !strings.Contains(text, x.text) || (hint != "") != (x.want != retention.Agrees) {
			t.Errorf("%s: %q, effective %v, %q, %q", x.name, v.Mismatch, v.Effective, text, hint)
		}
	}
}

// The oldest event of one look is gone at the next, twice, long before its time.
func TestObserverSeesEventsGoEarly(t *testing.T) {
	o := retention.NewObserver(retention.Policy{Events: 7 * day})
	at := now
	var got []retention.Mismatch
	for range 4 {
		got = append(got, o.Observe(retention.Sight{Now: at, Oldest: at.Add(-day), LowestID: 7}).Mismatch)
		at = at.Add(time.Hour)
	}
	if got[0] != retention.Agrees || got[1] != retention.Agrees || got[2] != retention.GoneEarly || got[3] != retention.GoneEarly {
		t.Errorf("mismatches %q", got)
	}
	if v := o.Observe(retention.Sight{Now: at, Oldest: at.Add(-7 * day), LowestID: 7}); v.Mismatch != retention.Agrees {
		t.Errorf("an old event contradicts it: %+v", v)
	}
	o = retention.NewObserver(retention.Policy{Events: 7 * day})
	for range 4 { // pruned as told
		if v := o.Observe(retention.Sight{Now: at, Oldest: at.Add(-7 * day), LowestID: 7}); v.Mismatch != retention.Agrees {
			t.Errorf("%+v", v)
		}
		at = at.Add(time.Hour)
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 14 * day: "14d", 36 * time.Hour: "1d12h", 25*time.Hour + 30*time.Minute: "1d1h30m", 6 * time.Hour: "6h", 10 * time.Minute: "10m",
		90*time.Second + time.Millisecond: "1m30s", day + time.Second: "1d1s", -time.Hour: "-1h", 100 * time.Millisecond: "0s",
	} {
		if got := retention.Format(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
