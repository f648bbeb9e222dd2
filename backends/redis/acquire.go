package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"flockd/backends"
)

// Acquire implements backends.Backend.
func (s *Store) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	if err := req.Check(); err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	if req.Mode != backends.Exclusive || req.Once != nil {
		return backends.Lease{}, backends.Refuse("", "redis: no shared or slot holds and no once yet")
	}
	lease, err := s.acquire(ctx, req)
	if err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	return lease, nil
}

func (s *Store) acquire(ctx context.Context, req backends.Request) (lease backends.Lease, err error) {
	a, err := s.ask(ctx, req)
	if err == nil && a.text(0) == "late" { // by a clock that was set, or a host that was suspended
		a, err = s.ask(ctx, req)
	}
	if err != nil {
		s.undo(ctx, req, a, err)
		return lease, err
	}
	switch a.text(0) {
	case "late":
		return lease, fmt.Errorf("%s: the question came too late", s.to.name)
	case "held":
		return lease, s.held(req, a)
	case "lost":
		return lease, backends.ErrLost
	case "granted":
		s.deafen() // a hold waits for nothing
		return backends.Lease{
			Key: req.Key, ID: req.ID, Token: backends.Token(parseMicros(a.text(1))), Mode: req.Mode, TTL: req.TTL,
			Granted: parseMicros(a.text(2)).time(),
		}, s.enough(a)
	}
	return lease, fmt.Errorf("%s: unknown answer %q", s.to.name, a.values)
}

// undo gives back what was granted where the server refuses to say how many replicas have
// it: whoever is refused takes it that nothing was done.
func (s *Store) undo(ctx context.Context, req backends.Request, a answer, err error) {
	if a.values != nil && errors.Is(s.to.classify(err), backends.ErrRefused) {
		s.Release(ctx, req.Key, req.ID, backends.Outcome{})
	}
}

// ask sends the question, and learns the server's clock from the answer.
func (s *Store) ask(ctx context.Context, req backends.Request) (answer, error) {
	asked := time.Now()
	a, err := s.run(ctx, acquireScript, req.Key, req.ID, s.to.replicas,
		ceil(req.TTL), ceil(req.Place), ceil(req.MinHold), string(req.Mode), req.Slots, encode(req.Owner), s.clock.at(ctx))
	if kind := a.text(0); err == nil && (kind == "held" || kind == "late") {
		s.clock.read(parseMicros(a.text(1)), asked)
	}
	return a, err
}

// clock is what is known of the server's clock. The zero clock knows nothing.
type clock struct {
	mu    sync.Mutex
	said  micros    // by the server
	asked time.Time // before that, by our own
}

func (c *clock) read(said micros, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said, c.asked = said, asked
}

// at is the instant at which ctx ends, or a round trip later; 0: unknown.
func (c *clock) at(ctx context.Context) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok || c.said == 0 {
		return 0
	}
	return int64(c.said) + ceil(deadline.Sub(c.asked))
}

// ceil is d in whole µs, not less than d.
func ceil(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// held reads the answer that somebody is in the way.
func (s *Store) held(req backends.Request, a answer) error {
	now := parseMicros(a.text(1))
	first, err := decode[claim](a.text(6), "line", req.Key)
	if err != nil {
		return err
	}
	held := &backends.HeldError{
		Key: req.Key, AsOf: now.time(), Waiters: a.number(2), Ahead: a.number(3),
		RetryAfter: time.Duration(max(parseMicros(a.text(4)), 0)) * time.Microsecond,
	}
	if req.Place > 0 {
		held.Seen = bell(s.to.prefix.bell(req.Key, req.ID))
	}
	if c := first.public(a.text(5), now); c.State == backends.Waiting {
		held.Next = &c
	} else {
		held.Holders = []backends.Claim{c}
	}
	return held
}

// enough refuses to count what too few replicas have. It may count yet, so it is an
// unknown outcome.
func (s *Store) enough(a answer) error {
	if a.copies >= s.to.replicas {
		return nil
	}
	return fmt.Errorf("%s: %d of %d replicas have it in time (min-replicas)", s.to.name, a.copies, s.to.replicas)
}
