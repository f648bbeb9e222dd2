package runner

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"flockd/runner/signals"
)

// earlyKept is how many signals that come before the command are kept: as many as package signals keeps.
const earlyKept = 32

// interrupt is the signal that ended the wait.
type interrupt struct{ signal syscall.Signal }

func (i *interrupt) Error() string { return fmt.Sprintf("interrupted by signal %d", i.signal) }

// heed ends the context on the first signal that ends a process which waits. After stop,
// which returns the other signals that came and the context's error, none is taken any
// more.
func heed(ctx context.Context, came <-chan os.Signal) (_ context.Context, stop func() ([]os.Signal, error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	end, done := make(chan struct{}), make(chan struct{})
	var others []os.Signal
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case s, ok := <-came:
				if !ok {
					return
				}
				if signals.EndsWait(s) {
					cancel(&interrupt{s.(syscall.Signal)})
					return
				}
				if len(others) < earlyKept {
					others = append(others, s)
				}
			}
		}
	}()
	return ctx, func() ([]os.Signal, error) {
		close(end)
		<-done
		err := ctx.Err()
		cancel(nil)
		return others, err
	}
}

// interrupted is the result of a wait whose context ended.
func interrupted(ctx context.Context) Result {
	r := Result{Class: Interrupted, Err: context.Cause(ctx)}
	if i, ok := r.Err.(*interrupt); ok {
		r.Signal = i.signal
	}
	return r
}
