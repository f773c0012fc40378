package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/retention"
)

// GuardConfig says whether Docket's pruner is held off while a consumer is
// about to lose events.
type GuardConfig struct {
	Guard GuardMode `env:"RETENTION_GUARD" envDefault:"off" desc:"hold keeps Docket's pruner from working while a consumer has little headroom left: all pruning of the schema pauses. off never does."`
	Below Headroom  `env:"RETENTION_GUARD_BELOW" envDefault:"20%" desc:"Headroom below which the guard holds: a share of RETENTION_EVENTS, such as 20%, or a time such as 6h."`
	Max   Duration  `env:"RETENTION_GUARD_MAX" envDefault:"6h" desc:"Longest hold. As long a rest follows, in which the pruner works, unless the consumer recovers before."`
}

// GuardMode is off or hold.
type GuardMode string

// Modes of the guard.
const (
	GuardOff  GuardMode = "off"
	GuardHold GuardMode = "hold"
)

// UnmarshalText reads off or hold.
func (m *GuardMode) UnmarshalText(text []byte) error {
	switch v := GuardMode(text); v {
	case GuardOff, GuardHold:
		*m = v
		return nil
	}
	return fmt.Errorf("%q is neither hold nor off", text)
}

// Headroom is a part of the retention: a share, or a time.
type Headroom struct {
	Share float64 // 0 where Time is given
	Time  time.Duration
}

// UnmarshalText reads 20%, 0.2 or 6h.
func (h *Headroom) UnmarshalText(text []byte) error {
	s := string(text)
	number, percent := strings.CutSuffix(s, "%")
	if v, err := strconv.ParseFloat(number, 64); err == nil {
		if percent {
			v /= 100
		}
		if !(v > 0 && v < 1) {
			return fmt.Errorf("%q is not a share between 0%% and 100%%", s)
		}
		*h = Headroom{Share: v}
		return nil
	}
	d, err := parseDuration(s)
	if err != nil || d == 0 {
		return fmt.Errorf("%q is neither a share nor a time; write 20%% or 6h", s)
	}
	*h = Headroom{Time: d}
	return nil
}

func (h Headroom) String() string {
	if h.Share > 0 {
		return strconv.FormatFloat(h.Share*100, 'f', -1, 64) + "%"
	}
	return retention.Format(h.Time)
}

// of returns the headroom as a time.
func (h Headroom) of(kept time.Duration) time.Duration {
	if h.Share > 0 {
		return time.Duration(h.Share * float64(kept))
	}
	return h.Time
}

// rule is when to hold, for events that are kept for so long.
func (c *GuardConfig) rule(kept time.Duration) retention.GuardRule {
	return retention.GuardRule{Below: c.Below.of(kept), Retention: kept, Max: c.Max.Value()}
}

func (c *GuardConfig) validate(ps *problems, kept Retention) {
	ps.atLeast("RETENTION_GUARD_MAX", c.Max, time.Minute)
	if c.Guard != GuardHold {
		return
	}
	if kept.Value() == 0 && !ps.mentions("RETENTION_EVENTS") {
		ps.add("RETENTION_GUARD", "is hold, but RETENTION_EVENTS is none: there is no pruner to hold off")
	} else if c.Below.Time >= kept.Value() && kept.Value() > 0 {
		ps.add("RETENTION_GUARD_BELOW", "is %s, which no consumer can have: events are kept for %s", c.Below, kept)
	}
}
