// Package mem keeps the locks of one process in memory. It is the contract of
// package backends in its shortest form: the other drivers are measured against
// it, and the runner is tested with it. It tells time by time.Now alone, so it
// works in a testing/synctest bubble.
package mem

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"flockd/backends"
)

// Store is a backend that all its users share; there is nothing to connect to.
type Store struct {
	mu      sync.Mutex
	records map[string]*record // by key
	highest map[string]backends.Token
}

var _ interface {
	backends.Backend
	backends.Waiter
	backends.Watcher
	backends.Register
	backends.Ledger
} = (*Store)(nil)

// New makes an empty store.
func New() *Store {
	return &Store{records: map[string]*record{}, highest: map[string]backends.Token{}}
}

// Traits: leases are exact, any caller may speak for an ID.
func (s *Store) Traits() backends.Traits {
	return backends.Traits{Clock: backends.Monotonic, Portable: true, Outlives: true}
}

// Close does nothing: the locks stay for whoever else has the store.
func (s *Store) Close() error { return nil }

// begin locks the store and brings the record of key up to now.
func (s *Store) begin(ctx context.Context, key string) (r *record, now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, now, err
	}
	s.mu.Lock()
	r, now = s.records[key], time.Now()
	if r == nil {
		r = &record{ended: map[string]backends.Notice{}, changed: make(chan struct{})}
		s.records[key] = r
	}
	r.settle(now)
	return r, now, nil
}

func (s *Store) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	if err := req.Check(); err != nil {
		return backends.Lease{}, err
	}
	r, now, err := s.begin(ctx, req.Key)
	if err != nil {
		return backends.Lease{}, err
	}
	defer s.mu.Unlock()
	place := r.place(req.ID)
	if _, ended := r.ended[req.ID]; ended && !r.waits(place) {
		return backends.Lease{}, r.gone(req.ID)
	}
	if place >= 0 && r.line[place].State == backends.Holding {
		return r.line[place].extend(now, req.TTL), nil
	}
	if entry, done := r.succeeded(req.Once, now); done {
		if r.waits(place) {
			r.remove(place)
		}
		return backends.Lease{}, &backends.DoneError{Key: req.Key, Entry: entry}
	}
	if place < 0 {
		place = len(r.line)
		r.line = append(r.line, newClaim(req, now))
	}
	if c := r.line[place]; c.mayHold() && backends.Fits(c.Claim, r.front(place)) {
		return r.grant(place, req, now), nil
	}
	r.line[place].wait(now, req.Place)
	held := r.held(place, req.Key, now)
	r.settle(now) // a claim that takes no place is gone at once
	return backends.Lease{}, held
}

func (s *Store) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	r, now, err := s.begin(ctx, lease.Key)
	if err != nil {
		return backends.Renewal{}, err
	}
	defer s.mu.Unlock()
	c := r.holding(lease.ID)
	if c == nil {
		return backends.Renewal{}, r.gone(lease.ID)
	}
	c.extend(now, lease.TTL)
	c.told = c.Notice
	return backends.Renewal{TTL: lease.TTL, Notice: c.Notice}, nil
}

func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	r, now, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	place := r.place(id)
	notice, ended := r.ended[id]
	r.ended[id] = notice
	switch {
	case r.waits(place):
		r.remove(place)
		return nil
	case ended || r.holding(id) == nil:
		return r.gone(id)
	}
	r.end(place, outcome, now)
	return nil
}

func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	r, now, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	place := r.place(id)
	if told, ended := r.ended[id]; ended && told == notice {
		return nil // asked before
	}
	waits := r.waits(place)
	if place < 0 || notice.Kind == backends.Supersede && !waits {
		return backends.ErrNotFound
	}
	if notice.Force || waits {
		r.ended[id] = notice
	}
	if notice.Force {
		if r.holding(id) != nil {
			r.end(place, backends.Outcome{Class: backends.Broken, Notice: notice}, now)
		}
		r.remove(r.place(id))
		return nil
	}
	r.line[place].Notice = notice
	r.moved()
	return nil
}

func (s *Store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	r, now, err := s.begin(ctx, key)
	if err != nil {
		return backends.Status{}, err
	}
	defer s.mu.Unlock()
	return backends.Status{
		Key: key, AsOf: now, Line: r.front(len(r.line)),
		Last: r.last, LastSuccess: r.lastSuccess,
	}, nil
}

func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	names := func() ([]string, error) { return s.keys(prefix), nil }
	return backends.Each(names, func(key string) (backends.Status, error) { return s.Inspect(ctx, key) })
}

func (s *Store) keys(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.records))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
}
