package cmd

import (
	"context"
	"iter"
	"sync"

	"flockd/backends"
	"flockd/backends/all"
)

// reopening is a store that couldn't be opened. Each Acquire but the first,
// which says why, tries again; from then on it is that store.
type reopening struct {
	url *backends.URL

	mu     sync.Mutex
	err    error // why it isn't open
	told   bool  // err was returned
	opened backends.Backend
}

// Unwrap is the store, once it is open; nil before.
func (r *reopening) Unwrap() backends.Backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened
}

func (r *reopening) store() (backends.Backend, error) {
	if b := r.Unwrap(); b != nil {
		return b, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, r.err
}

func (r *reopening) Traits() backends.Traits {
	if b := r.Unwrap(); b != nil {
		return b.Traits()
	}
	return backends.Traits{}
}

func (r *reopening) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	b, err := r.open(ctx)
	if err != nil {
		return backends.Lease{}, err
	}
	return b.Acquire(ctx, req)
}

func (r *reopening) open(ctx context.Context) (backends.Backend, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened != nil {
		return r.opened, nil
	}
	if !r.told {
		r.told = true
		return nil, r.err
	}
	b, err := all.Open(ctx, r.url)
	if err != nil {
		r.err = err
		return nil, err
	}
	r.opened = b
	return b, nil
}

func (r *reopening) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	b, err := r.store()
	if err != nil {
		return backends.Renewal{}, err
	}
	return b.Renew(ctx, lease)
}

func (r *reopening) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	if b := r.Unwrap(); b != nil {
		return b.Release(ctx, key, id, outcome)
	}
	return backends.ErrLost // nothing was asked for yet
}

func (r *reopening) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	b, err := r.store()
	if err != nil {
		return err
	}
	return b.Ask(ctx, key, id, notice)
}

func (r *reopening) Inspect(ctx context.Context, key string) (backends.Status, error) {
	b, err := r.store()
	if err != nil {
		return backends.Status{}, err
	}
	return b.Inspect(ctx, key)
}

func (r *reopening) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	b, err := r.store()
	if err != nil {
		return func(yield func(backends.Status, error) bool) { yield(backends.Status{}, err) }
	}
	return b.List(ctx, prefix)
}

func (r *reopening) Close() error {
	if b := r.Unwrap(); b != nil {
		return b.Close()
	}
	return nil
}
