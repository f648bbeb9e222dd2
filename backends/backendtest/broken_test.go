package backendtest_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/mem"
)

// A fault is one way in which a store breaks its contract. The functions stand in
// for the store's own; nil ones are sound.
type fault struct {
	caught   string // the test that must fail
	unlisted backendtest.Ability
	mode     backends.Mode // where it breaks one mode alone

	acquire  func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error)
	renew    func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error)
	release  func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error
	ask      func(s *store, ctx context.Context, key, id string, notice backends.Notice) error
	inspect  func(s *store, ctx context.Context, key string) (backends.Status, error)
	list     func(s *store, ctx context.Context, prefix string) iter.Seq2[backends.Status, error]
	wait     func(s *store, ctx context.Context, held *backends.HeldError) error
	watch    func(s *store, ctx context.Context, lease backends.Lease) error
	complete func(s *store, ctx context.Context, lease backends.Lease) error
	admit    func(s *store, ctx context.Context, resource string, token backends.Token) error

	misreads bool // newer records
	repairs  bool // requests that make no sense
}

// A world is a broken store, and what is known of its past.
type world struct {
	*mem.Store
	fault
	newer sync.Map // keys whose record is newer
	runs  sync.Map // that were ever completed, by key and ID

	mu              sync.Mutex
	clients         int
	past            map[string]past // by ID
	last            backends.Lease  // the last grant
	requests        map[*backends.HeldError]backends.Request
	swapping        sync.Mutex
	closed, listing atomic.Bool
}

// A store is one client of a world.
type store struct {
	*world
	client int
}

func newWorld(f fault) *world {
	return &world{Store: mem.New(), fault: f, past: map[string]past{}, requests: map[*backends.HeldError]backends.Request{}}
}

func (w *world) open() *store {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients++
	return &store{world: w, client: w.clients}
}

// checks refuses newer records, unless that is the fault.
func (s *store) checks(key string) error {
	if _, newer := s.newer.Load(key); newer && !s.misreads {
		return backends.Refuse("", "a newer record")
	}
	return nil
}

func (s *store) Acquire(ctx context.Context, req backends.Request) (lease backends.Lease, err error) {
	if err := s.checks(req.Key); err != nil {
		return lease, err
	}
	if err := req.Check(); err != nil && !s.repairs {
		return lease, err
	}
	if s.acquire != nil {
		lease, err = s.acquire(s, ctx, req)
	} else {
		lease, err = s.Store.Acquire(ctx, req)
	}
	s.learns(req.ID, func(p *past) {
		if !p.asked {
			p.client, p.order, p.at, p.mode, p.cools = s.client, len(s.past), time.Now(), req.Mode, req.MinHold > 0
		}
		p.asked = true
		p.granted = p.granted || err == nil
		if held, ok := err.(*backends.HeldError); ok {
			s.requests[held] = req
		}
		if err == nil {
			s.last = lease
		}
	})
	return lease, err
}

func (s *store) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	if s.renew != nil {
		return s.renew(s, ctx, lease)
	}
	return s.Store.Renew(ctx, lease)
}

func (s *store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	defer s.learns(id, func(p *past) { p.released = true })
	if s.release != nil {
		return s.release(s, ctx, key, id, outcome)
	}
	return s.Store.Release(ctx, key, id, outcome)
}

func (s *store) Ask(ctx context.Context, key, id string, notice backends.Notice) (err error) {
	defer s.learns(id, func(p *past) { p.removed = p.removed || notice.Force })
	if s.ask == nil {
		err = s.Store.Ask(ctx, key, id, notice)
	} else {
		err = s.ask(s, ctx, key, id, notice)
	}
	if err == nil {
		s.learns(id, func(p *past) { p.told = notice })
	}
	return err
}

func (s *store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	if err := s.checks(key); err != nil {
		return backends.Status{}, err
	}
	if s.inspect != nil {
		return s.inspect(s, ctx, key)
	}
	return s.Store.Inspect(ctx, key)
}

func (s *store) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	if s.list != nil {
		return s.list(s, ctx, prefix)
	}
	return s.Store.List(ctx, prefix)
}

func (s *store) Wait(ctx context.Context, held *backends.HeldError) error {
	if s.wait != nil {
		return s.wait(s, ctx, held)
	}
	return s.Store.Wait(ctx, held)
}

func (s *store) Watch(ctx context.Context, lease backends.Lease) error {
	if s.watch != nil {
		return s.watch(s, ctx, lease)
	}
	return s.Store.Watch(ctx, lease)
}

func (s *store) Complete(ctx context.Context, lease backends.Lease) (err error) {
	if s.complete != nil {
		err = s.complete(s, ctx, lease)
	} else {
		err = s.Store.Complete(ctx, lease)
	}
	if err == nil {
		s.runs.Store(lease.Key+lease.Run, true)
	}
	return err
}

func (s *store) Admit(ctx context.Context, resource string, token backends.Token) error {
	if s.admit != nil {
		return s.admit(s, ctx, resource, token)
	}
	return s.Store.Admit(ctx, resource, token)
}

func (s *store) Close() error {
	s.closed.Store(true)
	return s.Store.Close()
}

// held is the answer that somebody is in the way of req, where there is one.
func (s *store) held(ctx context.Context, req backends.Request) (*backends.HeldError, backends.Lease, error) {
	lease, err := s.Store.Acquire(ctx, req)
	var held *backends.HeldError
	errors.As(err, &held)
	return held, lease, err
}

// forged is a grant that the store knows nothing of.
func forged(req backends.Request) backends.Lease {
	return backends.Lease{
		Key: req.Key, ID: req.ID, Token: backends.Token(time.Now().UnixMicro() + 1), Mode: req.Mode, TTL: req.TTL, Granted: time.Now(),
	}
}

// reborn asks for req under a new ID, as if it had never been forbidden.
func (s *store) reborn(ctx context.Context, req backends.Request) (backends.Lease, error) {
	req.ID = backends.NewID()
	return s.Store.Acquire(ctx, req)
}

// lasting grants a brief lease that truly lasts for ttl, if the key is free at once.
func (s *store) lasting(ctx context.Context, req backends.Request, ttl time.Duration) (backends.Lease, error) {
	if s.knows(req.ID).asked || req.TTL != TTL || req.Mode != backends.Exclusive {
		return s.Store.Acquire(ctx, req)
	}
	promised := req.TTL
	req.TTL = ttl
	lease, err := s.Store.Acquire(ctx, req)
	lease.TTL = promised
	return lease, err
}

// again asks for what lease was.
func again(lease backends.Lease) backends.Request {
	return backends.Request{Key: lease.Key, ID: lease.ID, Mode: lease.Mode, TTL: lease.TTL}
}

// releaseFirst releases whoever is first in line.
func (s *store) releaseFirst(ctx context.Context, key string) {
	if line := s.line(ctx, key); len(line) > 0 {
		s.Store.Release(ctx, key, line[0].ID, backends.Outcome{})
	}
}
