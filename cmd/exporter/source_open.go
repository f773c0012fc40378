package main

import (
	"context"

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
	known.Retention, known.Loss = s.config.Exporter.Retention.Value(), s.lossRule(state)
	known.Limits = docket.Limits{Events: int(c.BatchEvents), Bytes: int64(c.BatchBytes)}
	known.PayloadKeys, known.NoPayload = c.Payload.Keys, !c.Payload.Full && len(c.Payload.Keys) == 0
	known.StatementTimeout = s.config.Exporter.StatementTimeout.Value()
	source := docket.New(s.docket, known)
	s.source.Store(source)
	return source, nil
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
