package retention

import "time"

// GuardRule says when Docket's pruner is held off.
type GuardRule struct {
	Below     time.Duration // hold while a consumer has less headroom than this
	Retention time.Duration // how long events are kept
	Max       time.Duration // longest hold; it is followed by as long a rest, or one until recovery
}

// release is the headroom from which on a hold ends. It lies above Below, so
// that a consumer at the threshold does not make the guard flap, and below the
// retention, which no headroom exceeds.
func (r GuardRule) release() time.Duration {
	return min(r.Below+r.Below/4, r.Below+max(r.Retention-r.Below, 0)/2)
}

// GuardState is what a guard is doing.
type GuardState string

// The states of a guard.
const (
	GuardIdle    GuardState = "idle"    // every consumer has enough headroom
	GuardWanted  GuardState = "wanted"  // the hold is wanted and not had: refused, or the pruner is at work
	GuardHeld    GuardState = "held"    // the pruner skips its passes
	GuardResting GuardState = "resting" // held for as long as allowed: the pruner may work
)

// Guard is the state machine of the hold. The caller asks it what to do, does
// it, and tells how that went. It is not safe for concurrent use.
type Guard struct {
	rule  GuardRule
	state GuardState
	since time.Time // of the state
	began time.Time // when the pruner was first held off since the last rest; zero when it has not been
}

// NewGuard returns a guard that holds nothing.
func NewGuard(rule GuardRule) *Guard { return &Guard{rule: rule, state: GuardIdle} }

// State returns what the guard is doing, and since when.
func (g *Guard) State() (GuardState, time.Time) { return g.state, g.since }

// Step takes in the least headroom of all consumers at now; known is false
// when no consumer's is known. It reports whether the pruner is to be held. A
// headroom that is not known begins and ends no hold but by its longest time.
func (g *Guard) Step(now time.Time, least time.Duration, known bool) (hold bool) {
	low, recovered := known && least < g.rule.Below, known && least >= g.rule.release()
	switch g.state {
	case GuardIdle:
		if low {
			g.enter(GuardWanted, now)
		}
	case GuardWanted:
		if recovered {
			g.enter(GuardIdle, now)
		}
	case GuardHeld:
		switch {
		case recovered:
			g.enter(GuardIdle, now)
		case now.Sub(g.began) >= g.rule.Max:
			g.enter(GuardResting, now)
		}
	case GuardResting:
		switch {
		case recovered:
			g.enter(GuardIdle, now)
		case now.Sub(g.since) >= g.rule.Max && low:
			g.enter(GuardWanted, now)
		case now.Sub(g.since) >= g.rule.Max:
			g.enter(GuardIdle, now)
		}
	}
	return g.state == GuardWanted || g.state == GuardHeld
}

// Held says that the hold that Step wanted is had, and for how long the pruner
// was held off by others already: the longest hold is that of all together.
func (g *Guard) Held(now time.Time, already time.Duration) {
	if g.state == GuardWanted {
		g.enter(GuardHeld, now)
		if began := now.Add(-already); g.began.IsZero() || began.Before(g.began) {
			g.began = began
		}
	}
}

// Lost says that the hold is gone although Step still wanted it: its session
// has ended. The time since it was first held goes on to count.
func (g *Guard) Lost(now time.Time) {
	if g.state == GuardHeld {
		g.enter(GuardWanted, now)
	}
}

func (g *Guard) enter(s GuardState, now time.Time) {
	g.state, g.since = s, now
	if s == GuardIdle || s == GuardResting {
		g.began = time.Time{}
	}
}
