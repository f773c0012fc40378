package retention_test

import (
	"testing"
	"time"

	"github.com/docket-exporter/exporter/retention"
)

var rule = retention.GuardRule{Below: 2 * time.Hour, Retention: 10 * time.Hour, Max: time.Hour}

// Every transition of the guard, as docs/states.md lists them.
func TestGuard(t *testing.T) {
	const unknown = -time.Hour * 1000
	type step struct {
		after    time.Duration
		headroom time.Duration
		event    string // what the caller tells after the step
		hold     bool
		state    retention.GuardState
	}
	for name, steps := range map[string][]step{
		"enough": {{0, 3 * time.Hour, "", false, retention.GuardIdle}, {0, unknown, "", false, retention.GuardIdle}},
		"low, then recovered": {
			{0, time.Hour, "", true, retention.GuardWanted},
			{time.Second, time.Hour, "held", true, retention.GuardHeld},
			{time.Minute, 2*time.Hour + time.Minute, "", true, retention.GuardHeld}, // above the threshold, below the release
			{time.Minute, unknown, "", true, retention.GuardHeld},
			{time.Minute, 2*time.Hour + 30*time.Minute, "", false, retention.GuardIdle},
		},
		"recovered before it was had": {
			{0, time.Hour, "", true, retention.GuardWanted},
			{time.Minute, 5 * time.Hour, "", false, retention.GuardIdle},
		},
		"lost": {
			{0, time.Hour, "held", true, retention.GuardHeld},
			{time.Minute, time.Hour, "lost", true, retention.GuardWanted},
			{time.Minute, time.Hour, "held", true, retention.GuardHeld},
			{58 * time.Minute, time.Hour, "", false, retention.GuardResting},
		},
		"held for too long": {
			{0, time.Hour, "held", true, retention.GuardHeld},
			{59 * time.Minute, -time.Hour, "", true, retention.GuardHeld},
			{time.Minute, -time.Hour, "", false, retention.GuardResting},
			{59 * time.Minute, -time.Hour, "", false, retention.GuardResting},
			{time.Minute, -time.Hour, "", true, retention.GuardWanted},
		},
		"recovered while resting": {
			{0, time.Hour, "held", true, retention.GuardHeld},
			{time.Hour, time.Hour, "", false, retention.GuardResting},
			{time.Minute, 9 * time.Hour, "", false, retention.GuardIdle},
			{time.Minute, time.Hour, "", true, retention.GuardWanted},
		},
		"rested, neither low nor recovered": {
			{0, time.Hour, "held", true, retention.GuardHeld},
			{time.Hour, time.Hour, "", false, retention.GuardResting},
			{time.Hour, unknown, "", false, retention.GuardIdle},
		},
		"unknown keeps a hold no longer than allowed": {
			{0, time.Hour, "held", true, retention.GuardHeld},
			{time.Hour, unknown, "", false, retention.GuardResting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, at := retention.NewGuard(rule), now
			for i, s := range steps {
				at = at.Add(s.after)
				hold := g.Step(at, s.headroom, s.headroom != unknown)
				switch s.event {
				case "held":
					g.Held(at, 0)
				case "lost":
					g.Lost(at)
				}
				if state, _ := g.State(); hold != s.hold || state != s.state {
					t.Fatalf("step %d: hold %v, %s; want %v, %s", i, hold, state, s.hold, s.state)
				}
			}
		})
	}
}

// However high the threshold is, a consumer that is caught up ends a hold.
func TestACaughtUpConsumerEndsAHold(t *testing.T) {
	for _, below := range []time.Duration{time.Minute, 5 * time.Hour, 9*time.Hour + 59*time.Minute} {
		g := retention.NewGuard(retention.GuardRule{Below: below, Retention: 10 * time.Hour, Max: time.Hour})
		g.Step(now, below-time.Second, true)
		g.Held(now, 0)
		if g.Step(now.Add(time.Second), 10*time.Hour, true) {
			t.Errorf("held at full headroom, below %v", below)
		}
	}
}

// Replicas that began apart leave the pruner its time all the same.
func TestReplicasHoldNoLongerThanOne(t *testing.T) {
	starts := []time.Duration{0, 30 * time.Minute, 59 * time.Minute}
	guards := make([]*retention.Guard, len(starts))
	since := make([]time.Time, len(starts)) // of each hold
	var held, longest, free time.Duration
	for passed := time.Duration(0); passed < 10*rule.Max; passed += time.Minute {
		at, oldest := now.Add(passed), now.Add(passed)
		for _, s := range since {
			if !s.IsZero() && s.Before(oldest) {
				oldest = s
			}
		}
		any := false
		for i, start := range starts {
			if passed < start {
				continue
			}
			if guards[i] == nil {
				guards[i] = retention.NewGuard(rule)
			}
			switch hold := guards[i].Step(at, time.Hour, true); {
			case !hold:
				since[i] = time.Time{}
			case since[i].IsZero():
				since[i] = at
				guards[i].Held(at, at.Sub(oldest))
			}
			any = any || !since[i].IsZero()
		}
		if any {
			held += time.Minute
			longest = max(longest, held)
		} else {
			held, free = 0, free+time.Minute
		}
	}
	if longest > rule.Max+time.Minute || free < 4*rule.Max {
		t.Errorf("held off for %v at a time, want %v; let work for %v of %v", longest, rule.Max, free, 10*rule.Max)
	}
}
