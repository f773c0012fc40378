package exporter

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff spaces out attempts: each delay is random between half and all of a
// value that doubles from Min to Max. The zero value uses 100 ms and 30 s.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	lo, hi := orDefault(b.Min, 100*time.Millisecond), orDefault(b.Max, 30*time.Second)
	b.next = min(max(b.next, lo), hi)
	d := b.next/2 + rand.N(b.next/2+1)
	b.next *= 2
	return d
}

// Reset starts again from Min.
func (b *Backoff) Reset() { b.next = 0 }

func orDefault(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}

// sleep waits for d or until ctx or stop ends, and reports whether d passed.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		select {
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	case <-t.C:
		return true
	}
}
