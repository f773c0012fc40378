package lag

import "time"

// The span of a forecast. Samples come when somebody scrapes, so they may be
// a second apart or an hour.
const (
	window  = 2 * time.Minute
	spacing = 4 * time.Second  // closer samples replace each other, so a ring holds few
	stale   = 15 * time.Minute // an average over more says nothing about the present
)

// ring is a consumer's samples of about the last window, oldest first: the
// first is the newest one that is a window old, where there is one.
type ring struct {
	samples []sample
}

// add takes a sample and returns the one to compare it with, if there is one.
func (r *ring) add(s sample) (from sample, ok bool) {
	if n := len(r.samples); n > 0 && !follows(r.samples[n-1], s) {
		r.samples = r.samples[:0]
	}
	if n := len(r.samples); n >= 2 && s.at.Sub(r.samples[n-2].at) < spacing {
		r.samples[n-1] = s
	} else {
		r.samples = append(r.samples, s)
	}
	drop := 0
	for drop < len(r.samples)-1 && (s.at.Sub(r.samples[drop+1].at) >= window && drop+1 < len(r.samples)-1 || s.at.Sub(r.samples[drop].at) > stale) {
		drop++
	}
	r.samples = append(r.samples[:0], r.samples[drop:]...)
	return r.samples[0], len(r.samples) > 1
}

// follows reports whether a later sample continues an earlier one: a position
// that was set back, or a clock, begins anew.
func follows(earlier, later sample) bool {
	return later.at.After(earlier.at) && later.high >= earlier.high && later.accepted >= earlier.accepted && later.head >= earlier.head
}
