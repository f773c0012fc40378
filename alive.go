package exporter

import (
	"context"
	"time"
)

type endKey struct{}

// WithEnd returns a context for which Alive also asks the clock: end is when it is
// to have ended, as of now.
func WithEnd(ctx context.Context, end func() time.Time) context.Context {
	return context.WithValue(ctx, endKey{}, end)
}

// Alive returns nil while what ctx stands for goes on, such as the ownership of a
// consumer. Of a process that has slept past the end it tells at once, when the
// timer that ends ctx has not run yet. A sink that nothing else fences asks before
// each write.
func Alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Value(endKey{}).(func() time.Time); ok && !time.Now().Before(end()) {
		return context.DeadlineExceeded
	}
	return nil
}
