package lag

import (
	"context"
	"log/slog"
	"time"
)

// Limits of reading, so that many who look cost the source no more than one:
// what was read is shown again while it is younger than rest times the
// duration of the read, between minAge and maxAge.
const (
	readTimeout = 5 * time.Second // below Prometheus' scrape timeout of 10 s
	minAge      = time.Second
	maxAge      = 30 * time.Second
	rest        = 20
)

// Watch reads the state of all consumers when somebody looks, and remembers
// enough of it for forecasts. It is safe for concurrent use: those who look at
// the same time share one read.
type Watch struct {
	read      func(context.Context) ([]Consumer, error)
	retention time.Duration
	log       *slog.Logger

	turn    chan struct{} // holds one token while somebody reads: the others wait and share
	reading Reading
	rings   map[string]*ring // by the consumer's uid
	failing bool
	next    time.Time // when it is read again
}

// Reading is what a Watch read last.
type Reading struct {
	Consumers []Consumer // nil after a failure
	At        time.Time  // of the last successful read, on this process's clock; zero before it
	Err       error      // why the last read failed
}

// NewWatch returns a Watch. read returns all consumers without their forecasts
// and must end with its context; retention is how long events are kept, 0 for
// ever.
func NewWatch(read func(context.Context) ([]Consumer, error), retention time.Duration, log *slog.Logger) *Watch {
	return &Watch{read: read, retention: retention, log: log, turn: make(chan struct{}, 1), rings: map[string]*ring{}}
}

// Retention returns how long events are kept, 0 for ever.
func (w *Watch) Retention() time.Duration { return w.retention }

// Latest returns what was read last, reading where that is too old. The
// consumers are shared: nobody may change them.
func (w *Watch) Latest() Reading {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	start := time.Now()
	if start.Before(w.next) {
		return w.reading
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	consumers, err := w.read(ctx)
	end := time.Now()
	w.next = end.Add(min(max(rest*end.Sub(start), minAge), maxAge))
	w.note(err)
	if err != nil {
		w.reading = Reading{At: w.reading.At, Err: err}
		return w.reading
	}
	w.foresee(consumers)
	w.reading = Reading{Consumers: consumers, At: end}
	return w.reading
}

// foresee fills in the forecasts.
func (w *Watch) foresee(consumers []Consumer) {
	rings := make(map[string]*ring, len(consumers))
	for i := range consumers {
		c := &consumers[i]
		r := w.rings[c.UID]
		if r == nil {
			r = &ring{}
		}
		rings[c.UID] = r
		if c.Backlog == nil {
			continue
		}
		to, kept := sampleOf(c), w.retention
		if c.Backfill {
			kept = 0 // no retention threatens it
		}
		if from, ok := r.add(to); ok {
			c.Forecast = forecast(from, to, c.Filtered, kept)
		}
	}
	w.rings = rings // those of removed consumers end
}

// note logs when reading begins to fail and when it works again.
func (w *Watch) note(err error) {
	switch {
	case err != nil && !w.failing:
		w.log.Warn("lag is unknown", "err", err)
	case err == nil && w.failing:
		w.log.Info("lag is known again")
	}
	w.failing = err != nil
}
