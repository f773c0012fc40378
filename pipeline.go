package exporter

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// ErrAbandoned says that a delivery was cut short because its context ended,
// not because the sink refused. The batch is sent again; the attempt does not count.
var ErrAbandoned = errors.New("the delivery in flight was abandoned")

const (
	// moveEvery is how often a position is written that moved only over ids
	// that needed no delivery.
	moveEvery = 5 * time.Second
	// leastWait is the pause after a batch, so that a steady trickle of events
	// is not read one by one.
	leastWait = 2 * time.Millisecond
)

// Pipeline copies one consumer's events from Source to Sink. All fields but
// Consumer, Source, Sink and Cursor may be left zero.
type Pipeline struct {
	Consumer string
	Source   Source
	Sink     Sink
	Cursor   Cursor

	Shape         string        // what of an event the source renders: see Batch.Token
	PollInterval  time.Duration // the longest idle wait; default 100 ms
	Linger        time.Duration // how long to wait for a batch to fill up; default not at all
	SweepInterval time.Duration // between looks at ids declared dead; default 1 h
	MaxAttempts   int           // at a batch, before an event that is refused alone is set aside; default 10
	MaxAge        time.Duration // an event that occurred longer ago by this machine's clock is set aside, not sent; 0 for never
	Once          bool          // return when caught up
	HaltOnLoss    bool          // pause with PausedPossibleLoss once a loss is recorded
	Backoff       Backoff       // between attempts
	Metrics       *ConsumerMetrics
	Log           *slog.Logger
	Progress      func(Progress) // told of every step; must return at once

	// Held reads which runs are held. With it, an event that comes after a dead
	// letter of its run is set aside as well, until a person has decided; nil
	// delivers it.
	Held func(ctx context.Context) (HeldRuns, error)
}

// Phase is what a pipeline is doing.
type Phase string

// The phases of a pipeline. It may stay in Delivering and Waiting as long as
// it likes; staying in another one means that it is stuck.
const (
	Reading    Phase = "reading"
	Delivering Phase = "delivering"
	Recording  Phase = "recording"
	Waiting    Phase = "waiting"
)

// Progress is a pipeline's latest step.
type Progress struct {
	Phase    Phase
	At       Position
	CaughtUp bool      // everything that the last read found is delivered, and it found all
	Blocked  []Hole    // as in Batch
	Held     bool      // nothing behind Blocked is taken, as in Batch.Waiting
	Polled   time.Time // when the source was last read with success
	ReadAt   time.Time // as in Batch, at the position At
	Err      error     // why it is waiting; nil when it is idle
}

// run is one call of Run.
type run struct {
	*Pipeline
	source *readAhead
	ctx    context.Context
	stop   <-chan struct{}

	at        Position // where we are
	stored    Position // where the cursor is
	storedAt  time.Time
	mark      *Mark // of what was read since the last write
	others    int   // rows between the stored position and the batch in hand that are not in it
	dead      Ranges
	number    int64
	begun     *Intent // a batch that has begun with the record of the one before
	again     *again  // a batch that has begun and is to be read again
	uid       string
	held      HeldRuns // as of the last look, and what was set aside since
	lastSweep time.Time
	saidHeld  time.Time
	progress  Progress
	spacing   time.Duration // between batches, while the sink is overloaded
}

// Run copies events until stop is closed, then finishes the batch in flight
// and returns nil. ctx bounds everything: it ends with the ownership of the
// consumer, or when the time for finishing is over.
//
// Run returns ErrFenced when somebody else owns the consumer, a *PauseError
// when a person is needed, ErrAbandoned when ctx ended during a delivery, and
// a *PanicError for a panic below it. Failures of the source, of the cursor's
// database and of the sink are not returned; Run tries again.
func (p *Pipeline) Run(ctx context.Context, stop <-chan struct{}, from State) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	r := &run{
		Pipeline: p, source: &readAhead{Source: p.Source}, ctx: ctx, stop: stop,
		at: from.Position, stored: from.Position, storedAt: time.Now(), dead: from.Dead, number: from.Number, uid: from.UID,
		progress: Progress{ReadAt: from.ReadAt},
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Metrics == nil {
		p.Metrics = NewMetrics(nil).Consumer(p.Consumer)
	}
	defer r.source.stop()
	if err := r.loadHeld(); err != nil {
		return r.ended(err)
	}
	if from.Intent != nil {
		if err := r.replay(*from.Intent); err != nil && !errors.Is(err, errReadAgain) {
			return r.ended(err)
		}
	}
	return r.ended(r.loop())
}

// ended turns the ways in which a stop shows itself into a clean return.
func (r *run) ended(err error) error {
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

var errStopped = errors.New("stopped")

func (r *run) loop() error {
	idle := time.Duration(0)
	for {
		b, err := r.read()
		if errors.Is(err, errStopped) {
			return r.finish()
		}
		if err != nil {
			return err
		}
		switch {
		case !b.Empty():
			if err := r.deliver(b); errors.Is(err, errReadAgain) {
				continue
			} else if err != nil {
				return err
			}
			r.speedUp()
			idle = leastWait
		default:
			r.at, r.dead, r.others = b.To, r.deadAfter(b), r.others+b.Rows
			r.mark = orElse(b.Mark, r.mark)
			r.readUpTo(&b)
			r.Metrics.settled(&b)
			if err := r.move(r.Once || r.again != nil || time.Since(r.storedAt) >= moveEvery); err != nil {
				return err
			}
			idle = min(max(2*idle, leastWait), orDefault(r.PollInterval, 100*time.Millisecond))
		}
		r.progress.CaughtUp = !b.More && !b.Waiting
		r.step(Waiting, nil)
		if b.More {
			idle = 0
		} else {
			if err := r.sweep(); err != nil {
				return err
			}
			if r.Once && b.Empty() && !b.Waiting && r.at.Equal(b.To) {
				return r.move(true)
			}
		}
		if r.begun != nil {
			continue // a batch that has begun is finished before a stop
		}
		if !sleep(r.ctx, r.stop, max(idle, r.spacing)) {
			return r.finish()
		}
	}
}

func (r *run) isStopped() bool {
	select {
	case <-r.stop:
		return true
	case <-r.ctx.Done():
		return true
	default:
		return false
	}
}

// The pause between batches that an overloaded sink is given.
const leastSpacing, mostSpacing = time.Second, 30 * time.Second

// slowDown spaces the batches further apart, which makes them larger, and
// returns the new pause.
func (r *run) slowDown() time.Duration {
	r.spacing = min(max(2*r.spacing, leastSpacing), mostSpacing)
	return r.spacing
}

// speedUp takes half of the pause back after a batch that was accepted at once.
func (r *run) speedUp() {
	if r.spacing /= 2; r.spacing < leastSpacing/2 {
		r.spacing = 0
	}
}

// finish writes down how far we are and ends the run.
func (r *run) finish() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if err := r.move(true); err != nil {
		return err
	}
	return errStopped
}

// step reports progress.
func (r *run) step(phase Phase, err error) {
	r.progress.Phase, r.progress.At, r.progress.Err = phase, r.at, err
	if r.Progress != nil {
		r.Progress(r.progress)
	}
}

// read returns the next batch. With Linger it gives a batch that is not full
// time to fill up, and reads it again.
func (r *run) read() (Batch, error) {
	b, err := r.poll()
	if err != nil || b.Empty() || b.More || r.Linger <= 0 || r.Once {
		return b, err
	}
	r.step(Waiting, nil)
	if !sleep(r.ctx, r.stop, r.Linger) {
		return Batch{}, r.finish()
	}
	return r.poll()
}

func (r *run) poll() (Batch, error) {
	var b Batch
	err := r.insist(Reading, "read", func() (err error) {
		b, err = r.source.Poll(r.ctx, r.at)
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	if len(b.Losses) > 0 {
		if err := r.passLosses(&b); err != nil {
			return Batch{}, err
		}
		return r.poll()
	}
	r.Metrics.polled()
	r.progress.Polled = time.Now()
	r.progress.Blocked, r.progress.Held = b.Blocked, b.Waiting
	r.sayHeld(b.Waiting)
	return b, nil
}

// sayHeld logs once a minute that an id stays open, and who keeps it.
func (r *run) sayHeld(waiting bool) {
	if len(r.progress.Blocked) == 0 {
		return
	}
	what := "ids stay open; what commits behind them is delivered all the same"
	if waiting {
		what = "ids stay open of which it is not known whether they are lost; nothing behind them is delivered until it is"
	}
	if h := r.progress.Blocked[0]; time.Since(h.Since) > time.Minute && time.Since(r.saidHeld) > time.Minute {
		r.saidHeld = time.Now()
		r.Log.Warn(what, "from", h.Lo, "to", h.Hi, "since", h.Since, "holders", h.Holders)
	}
}

// move writes the position when it has changed without a delivery.
func (r *run) move(now bool) error {
	if !now || r.at.Equal(r.stored) {
		return nil
	}
	return r.accept("move", Acceptance{Number: r.number, To: r.at, Dead: r.dead, Mark: r.mark})
}

func (r *run) accept(what string, a Acceptance) error {
	err := r.insist(Recording, what, func() error { return r.Cursor.Accept(r.ctx, a) })
	if err != nil {
		return err
	}
	r.wrote(a.To, a.Dead)
	return nil
}

// readUpTo notes up to when the source has been read, now that b is done.
func (r *run) readUpTo(b *Batch) {
	if !b.ReadAt.IsZero() {
		r.progress.ReadAt = b.ReadAt
	}
}

// wrote notes what the cursor holds.
func (r *run) wrote(at Position, dead Ranges) {
	r.at, r.stored, r.dead, r.storedAt, r.others, r.mark, r.again = at, at, dead, time.Now(), 0, nil, nil
}
