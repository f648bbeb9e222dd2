package cmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"flockd/backends"
	"flockd/runner/signals"
)

// opening is a store that isn't open yet. It is opened in a goroutine of its own,
// so that a store that hangs, as a file system may whose server is gone, holds
// nobody up. Where that fails, the next Acquire tries again.
type opening struct {
	opener func() (backends.Backend, error)

	mu     sync.Mutex
	latest *attempt // never nil
	met    error    // by the latest attempt that failed
}

// attempt is a try to open a store. Its result is there once done is closed.
type attempt struct {
	done  chan struct{}
	store backends.Backend
	err   error
	told  bool // err was returned; guarded by opening.mu
}

func newOpening(opener func() (backends.Backend, error)) *opening {
	o := &opening{opener: opener}
	o.latest = o.try()
	return o
}

func (o *opening) try() *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() {
			if fault := recover(); fault != nil {
				a.err = fmt.Errorf("internal fault: %v", fault) // of a driver
			}
		}()
		a.store, a.err = o.opener()
	}()
	return a
}

// waited reports whether the attempt came to an end, before a limit and before a
// signal that ends a wait. What came meanwhile is left in signals.
func (a *attempt) waited(limit <-chan time.Time, queue chan os.Signal) bool {
	var came []os.Signal
	defer func() { signals.Return(queue, came) }()
	for {
		select {
		case <-a.done:
			return true
		case <-limit:
			return false
		case sig := <-queue:
			came = append(came, sig)
			if signals.EndsWait(sig) {
				return false
			}
		}
	}
}

// current is the latest attempt, or a new one after a failure that was told.
func (o *opening) current() *attempt {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.latest.told {
		o.latest = o.try()
	}
	return o.latest
}

// open waits for the store.
func (o *opening) open(ctx context.Context) (backends.Backend, error) {
	a := o.current()
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, o.notOpen()
	}
	if a.err != nil {
		o.mu.Lock()
		a.told, o.met = true, a.err
		o.mu.Unlock()
	}
	var bad *backends.URLError
	if errors.As(a.err, &bad) {
		return nil, &backends.RefusedError{Err: bad} // to try again is of no use
	}
	return a.store, a.err
}

// notOpen is errNotOpen, with the words of what the attempt before has met: that one may
// have been final, this one isn't.
func (o *opening) notOpen() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.met == nil {
		return errNotOpen
	}
	return fmt.Errorf("%w: %v", errNotOpen, o.met)
}

// Unwrap is the store, once it is open; nil before.
func (o *opening) Unwrap() backends.Backend {
	o.mu.Lock()
	a := o.latest
	o.mu.Unlock()
	select {
	case <-a.done:
		return a.store
	default:
		return nil
	}
}

// now is the store, or an error if it isn't open.
func (o *opening) now() (backends.Backend, error) {
	if b := o.Unwrap(); b != nil {
		return b, nil
	}
	return nil, o.notOpen()
}

// Traits are the store's, once it is open. Before, they are those of a store
// elsewhere, which promise the least.
func (o *opening) Traits() backends.Traits {
	if b := o.Unwrap(); b != nil {
		return b.Traits()
	}
	return backends.Traits{}
}

func (o *opening) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	b, err := o.open(ctx)
	if err != nil {
		return backends.Lease{}, err
	}
	return b.Acquire(ctx, req)
}

func (o *opening) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	b, err := o.now()
	if err != nil {
		return backends.Renewal{}, err
	}
	return b.Renew(ctx, lease)
}

// Release finds nothing to release in a store that isn't open: whatever was asked
// of it never got there.
func (o *opening) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	b, err := o.now()
	if err != nil {
		return backends.ErrLost
	}
	return b.Release(ctx, key, id, outcome)
}

func (o *opening) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	b, err := o.now()
	if err != nil {
		return err
	}
	return b.Ask(ctx, key, id, notice)
}

func (o *opening) Inspect(ctx context.Context, key string) (backends.Status, error) {
	b, err := o.now()
	if err != nil {
		return backends.Status{}, err
	}
	return b.Inspect(ctx, key)
}

func (o *opening) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	b, err := o.now()
	if err != nil {
		return func(yield func(backends.Status, error) bool) { yield(backends.Status{}, err) }
	}
	return b.List(ctx, prefix)
}

func (o *opening) Close() error {
	if b := o.Unwrap(); b != nil {
		return b.Close()
	}
	return nil
}
