package receiver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// Of deliveries at the same time one has the effect; the others wait for it and
// get its result, or have the effect when it failed.
func TestSameEventAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	h, body := message(t, 1)
	const clients = 8
	entered, release := make(chan struct{}, clients), make(chan error)
	w.on(func(context.Context, Event) error {
		entered <- struct{}{}
		return <-release
	})
	replies := make(chan reply, clients)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			r, err := w.post(t.Context(), h, body)
			if err != nil {
				t.Error(err)
			}
			replies <- r
		})
	}
	<-entered
	waiting := func(n int) {
		pgtest.Until(t, 30*time.Second, "the others to wait for the key", func() bool {
			return pgtest.Value[int](t, w.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
		})
	}
	waiting(clients - 1)
	release <- errors.New("the first one fails")
	<-entered
	waiting(clients - 2)
	release <- nil
	wg.Wait()
	close(replies)
	statuses, results := map[int]int{}, map[string]int{}
	for r := range replies {
		statuses[r.status]++
		if r.status == 200 {
			results[r.body]++
		}
	}
	if statuses[500] != 1 || statuses[200] != clients-1 || len(results) != 1 {
		t.Errorf("statuses %v, results %v", statuses, results)
	}
	w.want(1)
}

// A client that goes away while the effect runs takes the effect with it.
func TestClientGoesAway(t *testing.T) {
	w := newWorld(t)
	h, body := message(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	w.on(func(ctx context.Context, _ Event) error {
		cancel()
		<-ctx.Done()
		return nil
	})
	if _, err := w.post(ctx, h, body); err == nil {
		t.Fatal("answered")
	}
	w.on(nil)
	if r := w.mustPost(h, body); r.status != 200 || r.header.Get(RepeatHeader) != "" {
		t.Fatalf("got %+v", r)
	}
	w.want(1)
}

// Without a unique key nothing would keep an effect from happening twice.
func TestLedgerWithoutUniqueKey(t *testing.T) {
	w := newWorld(t)
	pgtest.Exec(t, w.pool, "ALTER TABLE docket_receipts DROP CONSTRAINT docket_receipts_pkey")
	h, body := message(t, 1)
	if r := w.mustPost(h, body); r.status != 500 {
		t.Fatalf("got %+v", r)
	}
	w.want(0)
}
