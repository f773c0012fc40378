package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/docket-exporter/exporter/cursor"
)

const (
	// yieldTime is how long a free consumer is left to a replica that owns fewer.
	yieldTime = time.Second
	// keepTime is how long a consumer is kept that was given up, and that no other
	// replica has kept: its sink or its code may fail there.
	keepTime = time.Minute
	// rosterAge is how old a roster may be to decide about a claim. The consumers
	// of a process ask one after the other, and one statement serves them.
	rosterAge = 100 * time.Millisecond
)

// balancer shares the consumers between the replicas that are configured for
// them: evenly, as far as the numbers allow. It gives up one consumer at a time,
// between two batches, and leaves a free one to a replica that owns fewer for a
// second, not longer: fairness never keeps a consumer without an owner.
//
// A nil balancer shares nothing.
type balancer struct {
	store     *cursor.Store
	name      string
	consumers []string
	beat      time.Duration // between two signs of life; it counts for two
	log       *slog.Logger
	withdrawn sync.Once

	looking sync.Mutex
	roster  cursor.Roster
	readAt  time.Time

	mu     sync.Mutex
	held   map[string]*holding
	free   map[string]time.Time // since when a consumer was seen free
	gaveUp map[string]time.Time
	uneven bool // the last look found a consumer to give up
}

// holding is a consumer that this process owns, or is about to.
type holding struct {
	leave   func()                      // makes its pipeline end after the batch in flight; nil before it runs
	state   func() (calm, settled bool) // it waits for events; it may be given up
	leaving bool
}

func newBalancer(store *cursor.Store, c ExporterConfig, log *slog.Logger) *balancer {
	return &balancer{
		store: store, name: c.Replica, consumers: c.Consumers, beat: min(c.LeaseTTL.Value()/3, 2*time.Second), log: log,
		held: map[string]*holding{}, free: map[string]time.Time{}, gaveUp: map[string]time.Time{},
	}
}

// announce gives a sign of life. Without it others only share less well.
func (b *balancer) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.beat)
	defer cancel()
	if err := b.store.Announce(ctx, b.name, b.consumers, 2*b.beat); err != nil {
		b.log.Debug("no sign of life was given to the other replicas", "err", err)
	}
}

// run gives signs of life and gives up what is too much, until ctx ends.
func (b *balancer) run(ctx context.Context) {
	for waitFor(ctx, b.beat) {
		b.announce(ctx)
		if roster, err := b.look(ctx); err == nil {
			b.even(roster)
		}
	}
}

// withdraw ends the signs of life. It comes before the first release at a
// stop, so that the others do not wait for this process.
func (b *balancer) withdraw(ctx context.Context) {
	if b == nil {
		return
	}
	b.withdrawn.Do(func() {
		if err := b.store.Withdraw(ctx, b.name); err != nil {
			b.log.Debug("the other replicas were not told of the end", "err", err)
		}
	})
}

// look returns who runs what, a moment ago at most.
func (b *balancer) look(ctx context.Context) (cursor.Roster, error) {
	b.looking.Lock()
	defer b.looking.Unlock()
	if time.Since(b.readAt) < rosterAge {
		return b.roster, nil
	}
	roster, err := b.store.Roster(ctx)
	if err == nil {
		b.roster, b.readAt = roster, time.Now()
	}
	return roster, err
}

// yields reports whether a consumer that is free should be left to another
// replica at this moment. If not, it counts as held until drop.
func (b *balancer) yields(ctx context.Context, consumer string) bool {
	if b == nil {
		return false
	}
	roster, err := b.look(ctx)
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(roster.Free, consumer) {
		delete(b.free, consumer)
		return false
	}
	if b.free[consumer].IsZero() {
		b.free[consumer] = time.Now()
	}
	if b.standing(roster).behind(consumer) != "" && time.Since(b.free[consumer]) < yieldTime {
		return true
	}
	b.held[consumer] = &holding{}
	return false
}

// hold notes that a consumer has been claimed.
func (b *balancer) hold(consumer string, leave func(), state func() (calm, settled bool)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[consumer] = &holding{leave: leave, state: state}
	delete(b.free, consumer)
}

// drop notes that a consumer is not owned, or no longer.
func (b *balancer) drop(consumer string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, consumer)
}

// even gives up one consumer if two looks in a row found too many.
func (b *balancer) even(roster cursor.Roster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	consumer, to := b.surplus(b.standing(roster))
	again := b.uneven
	if b.uneven = consumer != ""; !again || !b.uneven {
		return
	}
	h := b.held[consumer]
	h.leaving, b.uneven = true, false
	b.gaveUp[consumer] = time.Now()
	b.log.Info("giving a consumer up to a replica that has fewer", "consumer", consumer, "to", to, "own", len(b.held))
	h.leave()
}

// surplus chooses the consumer to give up, and names who should take it: one
// that waits for events before one that is at work. It chooses none while one
// is being given up, none that sends an interrupted batch again or that is in
// trouble, and none that came back a moment ago.
func (b *balancer) surplus(s standing) (consumer, to string) {
	for _, name := range slices.Sorted(maps.Keys(b.held)) {
		h := b.held[name]
		if h.leaving {
			return "", ""
		}
		heir := s.heir(name)
		if heir == "" || h.leave == nil || time.Since(b.gaveUp[name]) < keepTime {
			continue
		}
		if calm, settled := h.state(); settled && (calm || consumer == "") {
			consumer, to = name, heir
		}
	}
	return consumer, to
}

func (b *balancer) standing(roster cursor.Roster) standing {
	return standing{me: b.name, mine: len(b.held), roster: roster}
}
