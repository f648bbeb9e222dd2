package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errSilent says that a driver kept to itself what became of a request.
var errSilent = errors.New("the store did not answer in time")

// telling is the latest of two errors that says something; nil ends the row.
func telling(before, err error) error {
	if before != nil && err == errSilent {
		return before
	}
	return err
}

// words is how long before its limit a driver is told to end, so that it can yet
// say what it was waiting for, on a host with ten busy processes to each core
// too. A tenth of a short limit does.
const words = 100 * time.Millisecond

// toldToEnd is a context for a request that may last for limit.
func toldToEnd(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit-min(words, limit/10))
}

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
		var a answer[T]
		defer func() {
			if fault := recover(); fault != nil {
				a.err = fmt.Errorf("internal fault: %v", fault) // of a driver: the outcome is unknown
			}
			c <- a
		}()
		a.value, a.err = f()
	}()
	return c
}

// within runs f with a context that ends near limit, and returns then at the latest,
// or when ctx ends.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	told, cancel := toldToEnd(ctx, limit)
	defer cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-call(func() (struct{}, error) { return struct{}{}, f(told) }):
		return a.err
	case <-timer.C:
		return errSilent
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
