package lag_test

import (
	"testing"
	"time"

	"github.com/docket-exporter/exporter/lag"
)

func TestAgeAndHeadroom(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const retention = time.Hour
	for name, c := range map[string]struct {
		backlog   *lag.Backlog
		age, left time.Duration
		known     bool
	}{
		"unknown":                     {nil, 0, 0, false},
		"nothing left":                {&lag.Backlog{Now: now, Exact: true}, 0, time.Hour, true},
		"one left":                    {&lag.Backlog{Now: now, Events: 1, Exact: true, Oldest: now.Add(-10 * time.Minute)}, 10 * time.Minute, 50 * time.Minute, true},
		"many left":                   {&lag.Backlog{Now: now, Events: 1e6, Oldest: now.Add(-time.Minute)}, time.Minute, 59 * time.Minute, true},
		"outlived":                    {&lag.Backlog{Now: now, Events: 1, Exact: true, Oldest: now.Add(-61 * time.Minute)}, 61 * time.Minute, -time.Minute, true},
		"a clock ahead":               {&lag.Backlog{Now: now, Events: 1, Exact: true, Oldest: now.Add(time.Minute)}, time.Microsecond, time.Hour - time.Microsecond, true},
		"oldest not found":            {&lag.Backlog{Now: now, Events: 1e6}, 0, 0, false},
		"counted, oldest not found":   {&lag.Backlog{Now: now, Events: 3, Exact: true}, 0, 0, false},
		"distance 0 proves no ending": {&lag.Backlog{Now: now}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if age, known := c.backlog.Age(); known != c.known || known && age != c.age {
				t.Errorf("age %v, %v; want %v, %v", age, known, c.age, c.known)
			}
			if left, known := (&lag.Consumer{Backlog: c.backlog}).Headroom(retention); known != c.known || known && left != c.left {
				t.Errorf("headroom %v, %v; want %v, %v", left, known, c.left, c.known)
			}
			if left, known := (&lag.Consumer{Backlog: c.backlog}).Headroom(0); known {
				t.Errorf("headroom %v without a retention", left)
			}
			if left, known := (&lag.Consumer{Backfill: true, Backlog: c.backlog}).Headroom(retention); known {
				t.Errorf("headroom %v of a backfill", left)
			}
		})
	}
}
