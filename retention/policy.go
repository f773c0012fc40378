package retention

import "time"

// Policy is what the operator told about Docket's pruner. It works on
// inserted_at of events, and on updated_at of finished runs.
type Policy struct {
	Events time.Duration // 0: events are kept for ever
	Runs   time.Duration // 0: not told
}

// Sight is what Docket's tables show at one moment.
type Sight struct {
	Now      time.Time // on the clock of Docket's database
	Oldest   time.Time // inserted_at of the oldest event; zero when there is none
	LowestID int64     // of all events

	// Young counts some of the runs that started just within Margin of the told
	// retention, and Gone those of them whose first event is missing.
	Young, Gone int

	Held bool // somebody keeps the pruner off, so that events outlive their retention

	OldestRun time.Time // updated_at of the finished run that was touched last longest ago; zero when there is none
}

// Mismatch is how the tables contradict the policy.
type Mismatch string

// What the tables can say about the policy.
const (
	Agrees    Mismatch = ""
	KeptLong  Mismatch = "events_kept_longer"  // the pruner is behind or does not run, or the told retention is too short
	GoneEarly Mismatch = "events_gone_earlier" // the told retention is longer than the real one
	RunsLong  Mismatch = "runs_kept_longer"    // as KeptLong, of runs
)

// Verdict is a policy compared with the tables.
type Verdict struct {
	Policy
	Empty     bool          // there is no event to compare with
	Observed  time.Duration // age of the oldest event; 0 when Empty
	LowestID  int64
	OldestRun time.Duration // age of the oldest finished run; 0 when there is none
	Mismatch  Mismatch

	// Effective is the retention to judge losses by: the observed one where the
	// table contradicts the told one. 0 is for ever.
	Effective time.Duration
}

// slack is how much longer than told a row may live without being late: the
// pruner takes one small batch at a time, often once an hour.
func slack(told time.Duration) time.Duration { return max(time.Hour, told/10) }

// Margin is how far within a told retention something must lie to prove, by
// being gone, that the retention is shorter: clocks of applications differ.
func Margin(told time.Duration) time.Duration { return min(max(told/10, time.Minute), told/2) }

// Judge compares p with one sight.
func Judge(p Policy, s Sight) Verdict {
	v := Verdict{Policy: p, Empty: s.Oldest.IsZero(), LowestID: s.LowestID, Effective: p.Events}
	if !v.Empty {
		v.Observed = max(s.Now.Sub(s.Oldest), 0)
	}
	if !s.OldestRun.IsZero() {
		v.OldestRun = max(s.Now.Sub(s.OldestRun), 0)
	}
	switch {
	case p.Events == 0:
	case v.Observed > p.Events+slack(p.Events):
		v.contradict(KeptLong)
		if s.Held {
			v.Mismatch = Agrees
		}
	case s.Gone > 0 && 2*s.Gone >= s.Young:
		v.contradict(GoneEarly)
	}
	if v.Mismatch == Agrees && p.Runs > 0 && !s.Held && v.OldestRun > p.Runs+slack(p.Runs) {
		v.Mismatch = RunsLong
	}
	return v
}

func (v *Verdict) contradict(m Mismatch) {
	if v.Empty {
		return // nothing to take the place of the told one
	}
	v.Mismatch, v.Effective = m, v.Observed
}

// Observer compares a policy with one sight after the other, and so learns
// more than one sight can show. It is not safe for concurrent use.
type Observer struct {
	policy Policy
	last   Sight
	early  int // times that the oldest event was gone too early
}

// NewObserver returns an Observer that has seen nothing.
func NewObserver(p Policy) *Observer { return &Observer{policy: p} }

// Observe takes in a sight that is newer than the last one. An oldest event
// that is gone by now was deleted at an age below its present one. A person may
// have deleted some; the pruner does it again and again, so twice is a proof.
func (o *Observer) Observe(s Sight) Verdict {
	v := Judge(o.policy, s)
	told, was := o.policy.Events, o.last.Oldest
	if told > 0 && !was.IsZero() && (s.Oldest.IsZero() || s.Oldest.After(was)) && s.Now.Sub(was) < told-Margin(told) {
		o.early++
	}
	if v.Observed >= told-Margin(told) {
		o.early = 0
	}
	if v.Mismatch == Agrees && o.early >= 2 {
		v.contradict(GoneEarly)
	}
	o.last = s
	return v
}
