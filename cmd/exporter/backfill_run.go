package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

// backfiller works on one backfill with pools of its own, so that it takes no
// connection from live consumers.
type backfiller struct {
	*supervisor
	name     string
	spec     backfillSpec
	until    exporter.Position
	pressure *pressureWatch
	own      *engine
}

// newBackfiller wires a backfill of one of c's consumers.
func newBackfiller(ctx context.Context, c Config, b *cursor.BackfillStatus, metrics *exporter.Metrics, log *slog.Logger) (*backfiller, error) {
	spec, err := specOf(b)
	if err != nil {
		return nil, err
	}
	of := consumerConfig(c, spec.Consumer)
	if of == nil {
		return nil, usage(fmt.Errorf("backfill %s is of consumer %s, which EXPORTER_CONSUMERS does not name; its variables say where the events go", b.Name, spec.Consumer))
	}
	consumer, err := spec.configure(*of, b.Name)
	if err != nil {
		return nil, err
	}
	c.Consumers = []ConsumerConfig{consumer}
	e, err := newEngine(ctx, c, false, log)
	if err != nil {
		return nil, err
	}
	e.metrics = metrics
	x := &backfiller{
		supervisor: e.supervisor(consumer), own: e, name: b.Name, spec: spec, until: b.Until,
		pressure: &pressureWatch{
			store: e.store, docket: e.docket, schema: c.Database.DocketSchema,
			liveLag: secondsOf(spec.LiveLag), replicaLag: secondsOf(spec.ReplicaLag),
		},
	}
	x.waiting = x.pressure.reason
	pace := newPace(spec.Rate, int(consumer.BatchEvents))
	x.end = &ending{until: b.Until, source: func(s *docket.Until) exporter.Source {
		return &politeSource{Until: s, page: int(consumer.BatchEvents), pace: pace, pressure: x.pressure, metrics: x.metrics, stop: func() <-chan struct{} { return x.stop }}
	}}
	return x, nil
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (x *backfiller) close() { x.own.close() }

// errStoppedEarly says that a backfill was asked to stop before its end.
var errStoppedEarly = errors.New("stopped before the end")

// run works until the backfill is finished, and then returns nil. When ctx
// ends, the batch in flight may finish, and it returns errStoppedEarly. A pause
// ends it, and so does another process that works on the backfill.
func (x *backfiller) run(ctx context.Context) error {
	grace := x.config.Exporter.ShutdownGrace.Value()
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(grace-releaseTime(grace), func() { end(errGraceOver) })
	})()
	x.stop = ctx.Done()
	x.policy.look(ctx) // losses are judged by it
	var backoff exporter.Backoff
	var said remark
	var owner owner
	for {
		err := x.turn(work)
		x.health.forget(x.name)
		var pause *exporter.PauseError
		var paused *cursor.PausedError
		switch {
		case errors.Is(err, errReachedEnd):
			return nil
		case errors.Is(err, cursor.ErrFinished), errors.Is(err, exporter.ErrFenced) && x.hasEnded(work):
			return x.finishedElsewhere(work)
		case x.stopping():
			return errStoppedEarly
		case errors.As(err, &paused), errors.As(err, &pause), errors.Is(err, cursor.ErrNotFound):
			return err
		case owner.lives(err):
			return err
		}
		select {
		case <-ctx.Done():
			return errStoppedEarly
		case <-time.After(x.judge(err, &backoff, &said)):
		}
	}
}

// errCancelled says that a person has ended the backfill.
var errCancelled = errors.New("the backfill was cancelled")

// hasEnded reports whether there is nothing left to own.
func (x *backfiller) hasEnded(ctx context.Context) bool {
	b, err := x.store.Backfill(ctx, x.name)
	return err == nil && b.Finished != nil
}

func (x *backfiller) finishedElsewhere(ctx context.Context) error {
	b, err := x.store.Backfill(ctx, x.name)
	if err == nil && b.Cancelled {
		err = errCancelled
	}
	return err
}

// owner tells an owner that lives from one that has died: that one's lease is
// not renewed.
type owner struct {
	name  string
	until time.Time
}

// lives reports whether err says that another process works on the consumer,
// and has renewed its lease meanwhile.
func (o *owner) lives(err error) bool {
	owned, ok := errors.AsType[*cursor.OwnedError](err)
	if !ok {
		return false
	}
	if o.name == owned.Owner && owned.Until.After(o.until) {
		return true
	}
	o.name, o.until = owned.Owner, owned.Until
	return false
}
