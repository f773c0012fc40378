package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	claimInterval = 500 * time.Millisecond // between tries to take a consumer that another replica owns
	pauseInterval = 2 * time.Second        // between looks at a paused consumer
	mostPatience  = 3 * time.Second        // between tries of a database that does not answer: events flow again soon after it does
)

// supervisor runs one consumer: it claims it, runs its pipeline, and acts on
// how that ends. Consumers share nothing but the pools.
type supervisor struct {
	*engine
	consumer ConsumerConfig
	log      *slog.Logger
	metrics  *exporter.ConsumerMetrics
	stop     <-chan struct{}
	source   atomic.Pointer[docket.Source]
	before   readBefore
	end      *ending                                     // nil for a consumer that follows Docket for ever
	waiting  func() string                               // out of consideration for whom it reads nothing; nil for a consumer that always reads
	owning   func(context.Context, *cursor.Cursor) error // what to do first with each claim; nil for nothing
}

func (e *engine) supervisor(c ConsumerConfig) *supervisor {
	return &supervisor{engine: e, consumer: c, log: e.log.With("consumer", c.Name), metrics: e.metrics.Consumer(c.Name)}
}

// run keeps the consumer going until stop is closed or, with once, until it
// has caught up. work bounds what goes on after stop.
func (s *supervisor) run(work context.Context, stop <-chan struct{}) error {
	s.stop = stop
	var backoff exporter.Backoff
	var said remark
	for {
		began := time.Now()
		err := s.turn(work)
		s.health.forget(s.consumer.Name)
		s.missing.note(s.consumer.Name, errors.Is(err, cursor.ErrNotFound))
		if err == nil {
			return nil
		}
		if s.stopping() {
			s.log.Debug("stopped", "err", err) // whatever it was, the next start goes on from the cursor
			return nil
		}
		if s.once && !errors.Is(err, exporter.ErrFenced) {
			return onceError(s.consumer.Name, err)
		}
		if time.Since(began) > time.Minute {
			backoff.Reset()
		}
		wait := s.judge(err, &backoff, &said)
		select {
		case <-stop:
			return nil
		case <-time.After(wait):
		}
	}
}

// errYielded and errGaveUp end a turn for the sake of a fair share.
var (
	errYielded = errors.New("another replica has fewer consumers and may take this one")
	errGaveUp  = errors.New("given up to another replica")
)

// turn owns the consumer once.
func (s *supervisor) turn(work context.Context) error {
	if s.balance.yields(work, s.consumer.Name) {
		return errYielded
	}
	defer s.balance.drop(s.consumer.Name)
	s.before.keep(s.source.Swap(nil))
	own, state, err := s.store.Claim(work, s.consumer.Name, s.config.Exporter.Replica, s.config.Exporter.LeaseTTL.Value())
	if err != nil {
		s.before.refused(err)
		return err
	}
	leaving, end := s.mayLeave(state)
	defer end()
	s.before.claimed(own.Epoch())
	s.log.Info("claimed", "epoch", own.Epoch(), "at", state.Position.High, "open_ranges", len(state.Position.Holes))
	s.tellFilter(work, own)
	if s.owning != nil {
		err = s.owning(work, own)
	}
	if err == nil {
		err = own.Run(work, s.heartbeat, func(ctx context.Context) error {
			return bounded(ctx, func() error { return s.pipe(ctx, leaving, own, state) })
		})
	}
	var pause *exporter.PauseError
	if errors.As(err, &pause) {
		pause.Detail = s.consumer.nameVariables(pause.Detail)
		if perr := s.paused(own, pause); perr != nil {
			err = errors.Join(err, perr)
		}
	}
	if err == nil {
		err = s.conclude(own)
	}
	if mayRelease(err) {
		s.release(own, errors.Is(err, exporter.ErrAbandoned))
	}
	if err == nil && !s.once && !s.stopping() {
		return errGaveUp
	}
	if errors.Is(err, exporter.ErrAbandoned) && errors.Is(err, errGraceOver) {
		s.log.Warn("the batch in flight was abandoned; it is sent again at the next start")
		return nil
	}
	return err
}

// mayRelease reports whether the lease is still ours to give up after a turn
// that ended with err: it also is when a person has paused the consumer. A sink
// that still works keeps it until it expires.
func mayRelease(err error) bool {
	_, paused := errors.AsType[*cursor.PausedError](err)
	return !errors.Is(err, exporter.ErrFenced) || paused && !errors.Is(err, errDeaf)
}

// mayLeave lets the balancer end the turn. The channel is closed then, with the
// stop of the process, and by end.
func (s *supervisor) mayLeave(from exporter.State) (leaving <-chan struct{}, end func()) {
	left := make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	s.end.begin(leave)
	go func() {
		select {
		case <-s.stop:
		case <-left:
		}
		leave()
	}()
	s.balance.hold(s.consumer.Name, leave, func() (calm, settled bool) {
		now := s.health.of(s.consumer.Name)
		replaying := from.Intent != nil && now.At.Equal(from.Position)
		return now.Phase == exporter.Waiting, !now.at.IsZero() && now.Err == nil && !replaying
	})
	return left, leave
}

// patience is how long after the end of its context a pipeline may take to return.
const patience = time.Second

// errDeaf says that a sink does not return although its context has ended.
var errDeaf = errors.New("its sink does not return")

// bounded calls f, and leaves it behind when it does not return after ctx has
// ended: a sink that is deaf to its context must not keep a lease or the process.
func bounded(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%w, and %w: %w", exporter.ErrAbandoned, errDeaf, context.Cause(ctx))
	}
}

// pipe runs the pipeline with a sink and a source of its own.
func (s *supervisor) pipe(ctx context.Context, leaving <-chan struct{}, own *cursor.Cursor, state exporter.State) (err error) {
	c := s.consumer
	sink, err := s.openSink(ctx, leaving, state.UID)
	if sink == nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	source, err := s.openSource(ctx, state)
	if err != nil {
		return err
	}
	p := &exporter.Pipeline{
		Consumer:     c.Name,
		Cursor:       s.pipes.wrapCursor(own),
		Sink:         s.pipes.wrapSink(sink),
		Source:       s.end.wrap(source),
		PollInterval: s.config.Exporter.PollInterval.Value(),
		Linger:       c.Linger.Value(),
		MaxAttempts:  int(c.MaxAttempts),
		MaxAge:       c.MaxAge.Value(),
		Shape:        c.shape(),
		Once:         s.once,
		HaltOnLoss:   c.OnLoss == LossHalt,
		Metrics:      s.metrics,
		Log:          s.log,
		Progress:     func(p exporter.Progress) { s.health.note(c.Name, p); s.end.note(&p) },
	}
	if c.OnPoison == PoisonHoldRun {
		p.Held = own.HeldRuns
	}
	own.LimitDeadLetters(int(c.MaxLetters))
	if err := p.Run(ctx, leaving, state); err != nil {
		return err
	}
	if s.once {
		s.report()
	}
	return nil
}

// openSink opens the sink, trying again until it works: what keeps it from
// opening is shown like any other trouble of a sink. It returns nil, and an
// error if there is one, when the work ends first.
func (s *supervisor) openSink(ctx context.Context, leaving <-chan struct{}, uid string) (sink, error) {
	var backoff exporter.Backoff
	for {
		opened, err := openSink(ctx, s.consumer, s.usedNames(ctx, uid), s.log)
		if err == nil {
			return opened, nil
		}
		err = fmt.Errorf("%s: %w", s.consumer.sinkVariables(), err)
		if s.once {
			return nil, usage(err)
		}
		wait := backoff.Next()
		s.log.Warn("the sink cannot be opened; trying again", "in", wait, "err", err)
		s.health.note(s.consumer.Name, exporter.Progress{Phase: exporter.Waiting, Err: err})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-leaving:
			return nil, nil
		case <-time.After(wait):
		}
	}
}

// usedNames are the names that the consumer had before, and those of its
// backfills that have ended: a process that was killed may have left files open
// under them, which nobody else finishes.
func (s *supervisor) usedNames(ctx context.Context, uid string) namesUsed {
	if s.consumer.Sink != SinkFile || s.end != nil {
		return namesUsed{}
	}
	names, err := readNames(ctx, s.store, s.consumer.Name, uid)
	if err != nil {
		s.log.Warn("files left open under earlier names are not looked for", "err", err)
	}
	return names
}

// paused writes down that a person is needed.
func (s *supervisor) paused(own *cursor.Cursor, why *exporter.PauseError) error {
	ctx, cancel := s.last()
	defer cancel()
	s.log.Error(ownPause, "reason", why.Reason, "detail", why.Detail,
		"then", thenCommand(s.consumer.Name, why))
	return own.Pause(ctx, why)
}

// release gives the consumer up, so that another replica can take it at once.
func (s *supervisor) release(own *cursor.Cursor, abandoned bool) {
	ctx, cancel := s.last()
	defer cancel()
	if s.stopping() {
		s.balance.withdraw(ctx)
	}
	if err := own.Renew(ctx, s.heartbeat()); err != nil { // the last word about how far it came
		s.log.Debug("no last heartbeat", "err", err)
	}
	if err := own.Release(ctx, abandoned); err != nil {
		s.log.Warn("the lease was not given up; it expires by itself", "err", err)
		return
	}
	s.log.Info("released")
}

// last is the context for the writes that end an ownership, also after a stop.
func (s *supervisor) last() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), releaseTime(s.config.Exporter.ShutdownGrace.Value()))
}

func (s *supervisor) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// report says how far a run with --once came.
func (s *supervisor) report() {
	at := s.health.of(s.consumer.Name).At
	fmt.Fprintf(s.out, "%s caught up at %s\n", s.consumer.Name, shortPosition(at))
	if n := at.Holes.Count(); n > 0 {
		fmt.Fprintf(s.out, "%s keeps %d ids open that may still appear: %s\n", s.consumer.Name, n, shortened(at.Holes.String()))
	}
}
