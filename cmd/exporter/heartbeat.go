package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// heartbeat is what a lease renewal carries.
func (s *supervisor) heartbeat() cursor.Heartbeat {
	p := s.health.of(s.consumer.Name)
	var h cursor.Heartbeat
	if !p.caughtUp.IsZero() {
		ago := time.Since(p.caughtUp)
		h.CaughtUp = &ago
	}
	h.ReadAt, h.Source = p.ReadAt, s.sawSource()
	if !p.Polled.IsZero() {
		ago := time.Since(p.Polled)
		h.Polled = &ago
	}
	for _, hole := range p.Blocked {
		if age := time.Since(hole.Since); h.Oldest == nil || age > *h.Oldest {
			h.Oldest = &age
		}
		h.Holders = append(h.Holders, hole.Holders...)
	}
	if s.waiting != nil {
		h.Waiting = s.waiting()
	}
	switch {
	case p.Err != nil:
		h.LastError = p.Err.Error()
	case p.Held && len(p.Blocked) > 0: // a backfill also waits out of consideration
		h.LastError = heldText(p.Blocked)
	}
	return h
}

// heldText says for whom a consumer waits that halts on a loss.
func heldText(open []exporter.Hole) string {
	var who []string
	for i := range open {
		for _, h := range open[i].Holders {
			who = append(who, nameHolder(h))
		}
	}
	by := cmp.Or(strings.Join(who[:min(len(who), mostHolders)], "; "), "transactions")
	return fmt.Sprintf("ids %d to %d may be lost, which is known once what keeps them open has ended: %s; nothing behind them is delivered until then",
		open[0].Lo, open[len(open)-1].Hi, by)
}
