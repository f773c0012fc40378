package lag

import (
	"math"
	"time"
)

// onTheWay is the age up to which an undelivered event counts as on its way: a
// consumer whose oldest one is younger is not behind.
const onTheWay = 5 * time.Second

// Forecast is what follows from the rates between two readings, if they stay
// as they are. All of it is estimated from averages over the last two minutes,
// or over the time since the last reading before that, up to 15 minutes.
// Seconds may be +Inf; nil is unknown.
type Forecast struct {
	// Arrival is how many events a second were committed for the consumer. Where
	// both backlogs were counted it is what the backlog has grown by plus what
	// was accepted: the filter is in both. Else it is the ids handed out, times
	// the share of ids that became accepted events; it is unknown when no id was
	// passed and the consumer has a filter.
	Arrival *float64

	// Drain is how many events a second the sink accepted.
	Drain float64

	// CatchUp is how many seconds it takes until nothing is left: 0 when nothing
	// older than five seconds is, +Inf when as much or more arrives than is
	// drained.
	CatchUp *float64

	// LossETA is how many seconds it takes until the retention reaches the oldest
	// undelivered event: its horizon moves by one second of inserted_at a second,
	// the consumer at the speed at which the age of its oldest event changed. It
	// is the headroom when the consumer stands still, +Inf when it keeps the
	// distance, 0 when the horizon is there, unknown without a retention.
	LossETA *float64
}

// sample is what of a reading rates are made of.
type sample struct {
	at             time.Time // on the source database's clock
	head, high     int64
	accepted       int64
	events         int64
	exact          bool
	age            time.Duration
	ageKnown, some bool // some: events are left
}

func sampleOf(c *Consumer) sample {
	b := c.Backlog
	s := sample{at: b.Now, head: b.Head, high: c.HighID, accepted: c.EventsAccepted, events: b.Events, exact: b.Exact}
	s.age, s.ageKnown = b.Age()
	s.some = b.Events > 0 || !b.Exact
	return s
}

// forecast compares two samples, the second one later than the first.
func forecast(from, to sample, filtered bool, retention time.Duration) *Forecast {
	seconds := to.at.Sub(from.at).Seconds()
	accepted := float64(to.accepted - from.accepted)
	f := &Forecast{Drain: accepted / seconds}
	f.Arrival = arrival(from, to, filtered, seconds)
	f.CatchUp = catchUp(from, to, f, seconds)
	f.LossETA = lossETA(from, to, seconds, retention)
	return f
}

func arrival(from, to sample, filtered bool, seconds float64) *float64 {
	accepted := float64(to.accepted - from.accepted)
	if from.exact && to.exact {
		// Less than nothing where rows were pruned, or put aside as dead letters.
		return known(max(float64(to.events-from.events)+accepted, 0) / seconds)
	}
	share := 1.0
	switch passed := float64(to.high - from.high); {
	case passed > 0:
		share = min(accepted/passed, 1)
	case filtered:
		return nil
	}
	return known(float64(to.head-from.head) / seconds * share)
}

func catchUp(from, to sample, f *Forecast, seconds float64) *float64 {
	var left, gain float64
	switch {
	case !to.some || to.ageKnown && to.age <= onTheWay:
		return known(0)
	case from.exact && to.exact:
		left, gain = float64(to.events), f.Drain-*f.Arrival
	default: // ids on both sides: the filter's share cancels
		left, gain = float64(to.head-to.high), float64((to.high-from.high)-(to.head-from.head))/seconds
	}
	if gain <= 0 {
		return known(math.Inf(1))
	}
	return known(left / gain)
}

func lossETA(from, to sample, seconds float64, retention time.Duration) *float64 {
	if retention <= 0 || !from.ageKnown || !to.ageKnown {
		return nil
	}
	headroom := (retention - to.age).Seconds()
	// An old row that turns up makes the age jump, but nothing ages faster than the clock.
	aging := min((to.age-from.age).Seconds()/seconds, 1)
	switch {
	case headroom <= 0 && to.some:
		return known(0)
	case aging <= 0 || to.age <= onTheWay:
		return known(math.Inf(1))
	}
	return known(headroom / aging)
}

func known(v float64) *float64 { return &v }
