package drill

import (
	"context"
	"errors"
	"iter"
	"sync"

	"flockd/backends"
)

// errCut is what becomes of a request whose answer didn't come through: an unknown outcome.
var errCut = errors.New("the link to the store was cut")

// link is the way to a store, which can be cut: then each call hangs until its context
// ends, as does each whose answer is on its way, or until the link is mended. Close isn't cut.
type link struct {
	store backends.Backend

	mu   sync.Mutex
	span span
}

// span is one time in which the link is whole, and the one after it in which it is not.
type span struct{ cut, mended chan struct{} }

func newSpan() span { return span{make(chan struct{}), make(chan struct{})} }

func newLink(store backends.Backend) *link { return &link{store: store, span: newSpan()} }

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.span.cut) {
		close(l.span.cut)
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.span.cut) {
		close(l.span.mended)
		l.span = newSpan()
	}
}

func (l *link) now() span {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// through is a call of the store's, as far as the link lets it.
func through[T any](ctx context.Context, l *link, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		of  T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, came := l.now(), make(chan answer, 1)
	if !isClosed(s.cut) {
		go func() {
			of, err := call(ctx)
			came <- answer{of, err}
		}()
	}
	select {
	case a := <-came:
		if !isClosed(s.cut) {
			return a.of, a.err
		}
	case <-s.cut:
	}
	var none T
	select {
	case <-s.mended:
		return none, errCut
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// done is through for what answers with an error alone.
func (l *link) done(ctx context.Context, call func(context.Context) error) error {
	_, err := through(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

func (l *link) Traits() backends.Traits { return l.store.Traits() }

func (l *link) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	return through(ctx, l, func(ctx context.Context) (backends.Lease, error) { return l.store.Acquire(ctx, req) })
}

func (l *link) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	return through(ctx, l, func(ctx context.Context) (backends.Renewal, error) { return l.store.Renew(ctx, lease) })
}

func (l *link) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	return l.done(ctx, func(ctx context.Context) error { return l.store.Release(ctx, key, id, outcome) })
}

func (l *link) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	return l.done(ctx, func(ctx context.Context) error { return l.store.Ask(ctx, key, id, notice) })
}

func (l *link) Inspect(ctx context.Context, key string) (backends.Status, error) {
	return through(ctx, l, func(ctx context.Context) (backends.Status, error) { return l.store.Inspect(ctx, key) })
}

// List isn't needed by an election.
func (l *link) List(context.Context, string) iter.Seq2[backends.Status, error] {
	return func(yield func(backends.Status, error) bool) {
		yield(backends.Status{}, backends.Refuse("", "a link doesn't list"))
	}
}

func (l *link) Close() error { return l.store.Close() }

// Wait gives no hint where the store can't.
func (l *link) Wait(ctx context.Context, held *backends.HeldError) error {
	return l.done(ctx, func(ctx context.Context) error {
		if waiter, ok := backends.As[backends.Waiter](l.store); ok {
			return waiter.Wait(ctx, held)
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// Watch gives no hint where the store can't.
func (l *link) Watch(ctx context.Context, lease backends.Lease) error {
	return l.done(ctx, func(ctx context.Context) error {
		if watcher, ok := backends.As[backends.Watcher](l.store); ok {
			return watcher.Watch(ctx, lease)
		}
		<-ctx.Done()
		return ctx.Err()
	})
}
