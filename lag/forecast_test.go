package lag

import (
	"math"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// counted is a sample with a counted backlog, some seconds after start.
func counted(seconds float64, high, accepted, events int64, age time.Duration) sample {
	return sample{
		at: start.Add(time.Duration(seconds * float64(time.Second))), head: high + events, high: high, accepted: accepted,
		events: events, exact: true, age: age, ageKnown: true, some: events > 0,
	}
}

// distant is one in which only the distance of ids is known.
func distant(seconds float64, head, high, accepted int64, age time.Duration) sample {
	s := counted(seconds, high, accepted, head-high, age)
	s.exact = false
	return s
}

func TestForecast(t *testing.T) {
	inf, absent := math.Inf(1), math.NaN()
	const day = 24 * time.Hour
	unknownAge := distant(10, 900_000, 0, 0, 0)
	unknownAge.ageKnown = false
	for name, c := range map[string]struct {
		from, to                        sample
		filtered                        bool
		retention                       time.Duration
		arrival, drain, catchUp, lossIn float64
	}{
		"idle":                        {counted(0, 9, 9, 0, 0), counted(60, 9, 9, 0, 0), false, day, 0, 0, 0, inf},
		"keeping up":                  {counted(0, 9, 9, 0, 0), counted(10, 1009, 1009, 20, time.Second), false, day, 102, 100, 0, inf},
		"catching up":                 {counted(0, 0, 0, 5000, time.Hour), counted(10, 1000, 1000, 4500, 50*time.Minute), false, day, 50, 100, 90, inf},
		"catching up, filtered":       {counted(0, 0, 0, 5000, time.Hour), counted(10, 9000, 1000, 4500, 50*time.Minute), true, day, 50, 100, 90, inf},
		"losing ground":               {counted(0, 0, 0, 100, time.Hour), counted(10, 100, 100, 200, time.Hour+5*time.Second), false, 2 * time.Hour, 20, 10, inf, 2 * (3600 - 5)},
		"standing still":              {counted(0, 0, 0, 100, time.Hour), counted(10, 0, 0, 150, time.Hour+10*time.Second), false, 2 * time.Hour, 5, 0, inf, 3590},
		"standing still, none come":   {counted(0, 0, 0, 100, time.Hour), counted(10, 0, 0, 100, time.Hour+10*time.Second), false, 2 * time.Hour, 0, 0, inf, 3590},
		"stopped when caught up":      {counted(0, 7, 7, 0, 0), counted(20, 7, 7, 40, 20*time.Second), false, 120 * time.Second, 2, 0, inf, 100},
		"an old row turns up":         {counted(0, 0, 0, 1, time.Minute), counted(10, 0, 0, 2, 9*time.Minute), false, 10 * time.Minute, 0.1, 0, inf, 60},
		"the horizon is there":        {counted(0, 0, 0, 9, time.Hour), counted(10, 9, 9, 9, 2*time.Hour), false, time.Hour, 0.9, 0.9, inf, 0},
		"rows were pruned":            {counted(0, 0, 0, 900, time.Hour), counted(10, 0, 0, 500, time.Hour), false, time.Hour, 0, 0, inf, 0},
		"no retention":                {counted(0, 0, 0, 9, time.Hour), counted(10, 0, 0, 9, 2*time.Hour), false, 0, 0, 0, inf, absent},
		"far, catching up":            {distant(0, 900_000, 0, 0, day), distant(10, 901_000, 11_000, 5_500, day-time.Hour), true, 2 * day, 50, 550, 890, inf},
		"far, losing ground":          {distant(0, 900_000, 0, 0, day), distant(10, 902_000, 1_000, 1_000, day+5*time.Second), false, 2 * day, 200, 100, inf, 2 * 86395},
		"far, standing still":         {distant(0, 900_000, 0, 0, day), distant(10, 902_000, 0, 0, day+10*time.Second), false, 2 * day, 200, 0, inf, 86390},
		"far, still and filtered":     {distant(0, 900_000, 0, 0, day), distant(10, 902_000, 0, 0, day+10*time.Second), true, 2 * day, absent, 0, inf, 86390},
		"far, the oldest not found":   {distant(0, 900_000, 0, 0, day), unknownAge, false, day, 0, 0, inf, absent},
		"came near, counted at last":  {distant(0, 200_000, 50_000, 0, day), counted(10, 150_000, 100_000, 50_000, day), false, 2 * day, 0, 10_000, 5, inf},
		"burned ids are no arrivals":  {distant(0, 900_000, 0, 0, day), distant(10, 902_000, 4_000, 2_000, day), false, 2 * day, 100, 200, 4490, inf},
		"replays are not all arrival": {distant(0, 900_000, 10, 10, day), distant(10, 900_100, 20, 500, day), false, 2 * day, 10, 49, inf, inf},
	} {
		t.Run(name, func(t *testing.T) {
			f := forecast(c.from, c.to, c.filtered, c.retention)
			for _, x := range []struct {
				what string
				got  *float64
				want float64
			}{{"arrival", f.Arrival, c.arrival}, {"drain", &f.Drain, c.drain}, {"catch up", f.CatchUp, c.catchUp}, {"loss in", f.LossETA, c.lossIn}} {
				switch {
				case x.got == nil && math.IsNaN(x.want):
				case x.got == nil || math.Abs(*x.got-x.want) > 1e-6*x.want && *x.got != x.want:
					t.Errorf("%s: %v, want %v", x.what, text(x.got), x.want)
				}
			}
		})
	}
}

func text(v *float64) any {
	if v == nil {
		return "unknown"
	}
	return *v
}

// spans feeds a ring at the given seconds and returns the span of each comparison; -1 for none.
func spans(seconds ...float64) (got []float64, r ring) {
	for _, s := range seconds {
		from, ok := r.add(counted(s, 0, 0, 0, 0))
		if !ok {
			got = append(got, -1)
			continue
		}
		got = append(got, s-from.at.Sub(start).Seconds())
	}
	return got, r
}

func TestRing(t *testing.T) {
	for name, c := range map[string]struct{ at, want []float64 }{
		"two readings":               {[]float64{0, 15}, []float64{-1, 15}},
		"every 50 s":                 {[]float64{0, 50, 100, 150, 200, 250}, []float64{-1, 50, 100, 150, 150, 150}},
		"nobody looked for a while":  {[]float64{0, 60, 660, 675}, []float64{-1, 60, 600, 615}},
		"nobody looked for an hour":  {[]float64{0, 60, 3660, 3675}, []float64{-1, 60, -1, 15}},
		"once in ten minutes":        {[]float64{0, 600, 1200}, []float64{-1, 600, 600}},
		"a clock that went back":     {[]float64{100, 50, 60}, []float64{-1, -1, 10}},
		"the same reading once more": {[]float64{100, 100, 160}, []float64{-1, -1, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := spans(c.at...)
			for i := range c.want {
				if got[i] != c.want[i] {
					t.Fatalf("spans %v, want %v", got, c.want)
				}
			}
		})
	}
}

// Many who look make neither a large ring nor a short span.
func TestRingStaysSmall(t *testing.T) {
	var at []float64
	for i := range 3600 {
		at = append(at, float64(i)*1.1)
	}
	got, r := spans(at...)
	if last := got[len(got)-1]; last < window.Seconds() || last > window.Seconds()+2*spacing.Seconds() {
		t.Errorf("a span of %v", last)
	}
	if len(r.samples) > 2*int(window/spacing) {
		t.Errorf("%d samples", len(r.samples))
	}
}

func TestRingBeginsAnew(t *testing.T) {
	var r ring
	r.add(counted(0, 100, 100, 0, 0))
	if _, ok := r.add(counted(10, 90, 100, 0, 0)); ok {
		t.Error("a position that was set back makes a rate")
	}
	if from, ok := r.add(counted(20, 95, 105, 0, 0)); !ok || from.high != 90 {
		t.Errorf("compared with %+v, %v", from, ok)
	}
}
