package runner

import (
	"context"
	"time"
)

// answer is what a call returned.
type answer[T any] struct {
	value T
	err   error
}

// call runs f in a goroutine of its own, so that a driver that doesn't mind its
// context holds nobody up. An answer that nobody waits for is dropped.
func call[T any](f func() (T, error)) <-chan answer[T] {
	c := make(chan answer[T], 1)
	go func() {
		v, err := f()
		c <- answer[T]{v, err}
	}()
	return c
}

// within runs f with a context that ends after limit, and returns then at the latest.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case a := <-call(func() (struct{}, error) { return struct{}{}, f(ctx) }):
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
