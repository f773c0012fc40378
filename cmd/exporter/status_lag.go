package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/lag"
	"github.com/docket-exporter/exporter/sources/docket"
)

// lagTimeout bounds what status waits for Docket's database: it is asked when
// something is wrong, and must answer with the rest then.
const lagTimeout = 5 * time.Second

// addLag fills in how far each consumer is behind, which only Docket's tables
// tell. Its error is the first reason for which that is unknown.
func (p *process) addLag(ctx context.Context, s *cursor.Store, list []cursor.Status, reports []consumerReport, db DatabaseConfig) error {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	pool, err := openPool(ctx, db.Docket, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return explainConnect(db.Docket, err)
	}
	p.sayGuard(ctx, pool, db.DocketSchema)
	scopes, err := s.Scopes(ctx)
	if err != nil {
		return err
	}
	var first error
	for i := range list {
		filters, err := p.filters(list[i].Name) // until the owner has told its own
		o := observer{docket: pool, schema: db.DocketSchema, configured: func(string) (docket.Filters, bool) { return filters, true }}
		var b *lag.Backlog
		if scope := scopes[list[i].UID]; err == nil || scope.Filter != nil {
			b, err = o.backlog(ctx, &list[i], &scope)
		}
		if err == nil {
			reports[i].setLag(b)
		} else if first == nil {
			first = fmt.Errorf("%s: %w", list[i].Name, err)
		}
	}
	return first
}

// filters are those that this environment gives a consumer, if any.
func (p *process) filters(consumer string) (docket.Filters, error) {
	ps := newProblems(p.env)
	c := loadConsumer(expand(p.env, nil, "", ps), consumer, ps)
	for _, filter := range []string{"TYPES", "TENANTS", "GRAPHS"} {
		if ps.mentions(c.Prefix() + filter) {
			return docket.Filters{}, fmt.Errorf("%s%s is not valid; see `exporter check`", c.Prefix(), filter)
		}
	}
	return filtersOf(c)
}

func (r *consumerReport) setLag(b *lag.Backlog) {
	seconds := 0.0
	if b.Events > 0 && !b.Oldest.IsZero() {
		seconds = max(b.Now.Sub(b.Oldest).Seconds(), 0)
	}
	r.LagEvents, r.LagExact, r.LagSeconds = &b.Events, &b.Exact, &seconds
}

func lagEvents(r *consumerReport) string {
	switch {
	case r.LagEvents == nil:
		return "?"
	case !*r.LagExact:
		return "<=" + strconv.FormatInt(*r.LagEvents, 10)
	default:
		return strconv.FormatInt(*r.LagEvents, 10)
	}
}

func lagTime(r *consumerReport) string {
	if r.LagSeconds == nil {
		return "?"
	}
	d := time.Duration(*r.LagSeconds * float64(time.Second))
	then := r.now.Add(-d)
	return strings.TrimSuffix(ago(r.now, &then), " ago")
}
