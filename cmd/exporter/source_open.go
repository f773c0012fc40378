package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

// openSource makes the consumer's source. It must be what the consumer last
// read or, when it has read nothing, the server that is known.
func (s *supervisor) openSource(ctx context.Context, state exporter.State) (*docket.Source, error) {
	filters, err := filtersOf(s.consumer)
	if err != nil {
		return nil, err
	}
	known, err := knownSource(ctx, s.store, s.consumer.Name)
	if err != nil {
		return nil, err
	}
	c := s.consumer
	known.Schema, known.Filters, known.Mark = s.config.Database.DocketSchema, filters, state.Mark
	s.before.fill(&known)
	known.Retention, known.Loss = s.config.Exporter.Retention.Value(), s.lossRule(state)
	known.Limits = docket.Limits{Events: int(c.BatchEvents), Bytes: int64(c.BatchBytes)}
	known.PayloadKeys, known.NoPayload = c.Payload.Keys, !c.Payload.Full && len(c.Payload.Keys) == 0
	known.StatementTimeout = s.config.Exporter.StatementTimeout.Value()
	source := docket.New(s.docket, known)
	s.source.Store(source)
	return source, nil
}

// readBefore is what this process itself has read for the consumer. Where the
// exporter's tables went back in time together with Docket's, as in a failover
// that lost commits, they no longer tell.
type readBefore struct {
	epoch int64 // of the last claim
	seen  *docket.Seen
	mark  *exporter.Mark
}

// keep takes over what a source has read.
func (r *readBefore) keep(source *docket.Source) {
	if source != nil && source.Saw() != nil {
		r.seen, r.mark = source.Saw(), source.Marked()
	}
}

// claimed forgets everything when somebody else has owned, moved or adopted the
// consumer since: each of these raises the epoch.
func (r *readBefore) claimed(epoch int64) {
	if epoch > r.epoch+1 {
		*r = readBefore{}
	}
	r.epoch = epoch
}

// refused forgets what was read once the consumer is seen to be paused for it:
// from then on a person decides. That a pause was written is not enough, since
// it may have gone into tables that are lost.
func (r *readBefore) refused(err error) {
	if paused, ok := errors.AsType[*cursor.PausedError](err); ok && paused.Reason == exporter.PausedSourceChanged {
		r.seen, r.mark = nil, nil
	}
}

// fill tells a source what was read, where that is more than what is kept.
func (r *readBefore) fill(known *docket.Options) {
	if r.mark != nil && (known.Mark == nil || known.Mark.EventID < r.mark.EventID) {
		known.Mark, known.Seen = r.mark, r.seen
	}
}

// knownSource says which source a consumer knows.
func knownSource(ctx context.Context, store *cursor.Store, consumer string) (docket.Options, error) {
	var o docket.Options
	bound, err := store.Source(ctx)
	if err != nil {
		return o, err
	}
	if bound != nil {
		o.System = bound.System
	}
	seen, _, err := store.SeenBy(ctx, consumer)
	if seen != nil {
		o.Seen = (*docket.Seen)(seen)
	}
	return o, err
}

// sawSource is what the consumer's source was when it was last read.
func (s *supervisor) sawSource() *cursor.Seen {
	source := s.source.Load()
	if source == nil {
		return nil
	}
	return (*cursor.Seen)(source.Saw())
}

// thenCommand is what a person does about a paused consumer.
func thenCommand(consumer string, why *exporter.PauseError) string {
	if why.Reason == exporter.PausedSourceChanged {
		return "exporter source show"
	}
	if why.Reason == exporter.PausedPossibleLoss {
		return "exporter cursor accept-loss " + consumer + " --all --reviewed-by … --reason …"
	}
	return "exporter consumer resume " + consumer + " --reason …"
}

// filtersOf is what of the events a consumer is given.
func filtersOf(c ConsumerConfig) (docket.Filters, error) {
	var f docket.Filters
	for _, x := range []struct {
		into     *docket.Filter
		patterns Patterns
	}{{&f.Types, c.Types}, {&f.Tenants, c.Tenants}, {&f.Graphs, c.Graphs}} {
		parsed, err := docket.ParseFilter(strings.Join(x.patterns, ","))
		if err != nil {
			return f, fmt.Errorf("consumer %s: %w", c.Name, err)
		}
		*x.into = parsed
	}
	var err error
	if f.Runs, err = docket.FilterOf(c.Runs); err != nil {
		return f, fmt.Errorf("consumer %s: runs: %w", c.Name, err)
	}
	return f, nil
}
