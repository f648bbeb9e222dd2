package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	lease, err := s.acquire(ctx, req)
	if err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	return lease, nil
}

func (s *Store) acquire(ctx context.Context, req backends.Request) (lease backends.Lease, err error) {
	a, err := s.ask(ctx, req)
	if kind := a.text(0); err == nil && (kind == "late" || kind == "another") { // by what we knew of the server's clock
		a, err = s.ask(ctx, req)
	}
	if err != nil {
		s.undo(ctx, req, a, err)
		return lease, err
	}
	switch a.text(0) {
	case "late", "another":
		return lease, fmt.Errorf("%s: the question came too late", s.to.name)
	case "held":
		return lease, s.held(req, a)
	case "lost":
		return lease, gone(a.text(2))
	case "done":
		return lease, done(req, a)
	case "granted":
		return leaseOf(req, a), s.enough(a)
	}
	return lease, fmt.Errorf("%s: unknown answer %q", s.to.name, a.values)
}

func leaseOf(req backends.Request, a answer) backends.Lease {
	return backends.Lease{
		Key: req.Key, ID: req.ID, Token: backends.Token(parseMicros(a.text(2))), Mode: backends.Mode(a.text(7)), Slot: a.number(4),
		TTL: req.TTL, Granted: parseMicros(a.text(3)).time(), Run: a.text(5), Keep: parseMicros(a.text(6)).span(),
	}
}

// done reads the answer that the run has succeeded.
func done(req backends.Request, a answer) error {
	e, err := decode[entry](a.text(2), "completed run", req.Key)
	if err != nil {
		return err
	}
	return &backends.DoneError{Key: req.Key, Entry: e.public(a.text(3))}
}

// undo gives back what was granted where the server refuses to say how many replicas have
// it: whoever is refused takes it that nothing was done.
func (s *Store) undo(ctx context.Context, req backends.Request, a answer, err error) {
	if a.values != nil && errors.Is(s.to.classify(err), backends.ErrRefused) {
		s.Release(ctx, req.Key, req.ID, backends.Outcome{})
	}
}

// ask sends the question, rings for whom it has made room, and learns the server's clock
// from the answer.
func (s *Store) ask(ctx context.Context, req backends.Request) (answer, error) {
	asked := time.Now()
	args := []any{
		ceil(req.TTL), ceil(req.Place), ceil(req.MinHold), string(req.Mode), req.Slots, encode(req.Owner),
		micro(s.clock.Deadline(ctx)), idle.Milliseconds(),
	}
	a, err := s.run(ctx, acquireScript, req.Key, req.ID, s.to.replicas, append(args, s.once(req.Once)...)...)
	switch a.text(0) {
	case "held", "late", "another":
		s.clock.Read(parseMicros(a.text(2)).time(), asked)
	}
	s.ring(ctx, req.Key, a.texts(1))
	return a, err
}

// ceil is d in whole µs, not less than d.
func ceil(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// micro is an instant as the scripts are told it; 0: none.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// held reads the answer that somebody is in the way.
func (s *Store) held(req backends.Request, a answer) error {
	now := parseMicros(a.text(2))
	held := &backends.HeldError{
		Key: req.Key, AsOf: now.time(), Waiters: a.number(3), Ahead: a.number(4), RetryAfter: parseMicros(a.text(5)).span(),
		Notice: noticeOf(a.text(6)),
	}
	if req.Place > 0 {
		held.Seen = bell(s.to.prefix.bell(req.Key, req.ID))
	}
	for pair := range slices.Chunk(a.texts(7), 2) {
		c, err := decode[claim](pair[len(pair)-1], "line", req.Key)
		if err != nil {
			return err
		}
		if c := c.public(pair[0], now); c.State == backends.Waiting {
			held.Next = &c
		} else {
			held.Holders = append(held.Holders, c)
		}
	}
	slices.SortStableFunc(held.Holders, func(a, b backends.Claim) int { return a.Asked.Compare(b.Asked) })
	held.RetryAfter = retryAfter(req.Mode, held)
	return held
}

// retryAfter is until the first of those ends whose end may make it our turn: for who
// shares, and for the first who waits for a slot, others than the claim in front.
func retryAfter(mode backends.Mode, held *backends.HeldError) time.Duration {
	after := max(held.RetryAfter, 0)
	for _, h := range held.Holders {
		ours := mode == backends.Shared && h.Mode != mode || mode == backends.Slots && held.Ahead == 0
		if left := h.Expires.Sub(held.AsOf); ours && left < after {
			after = left
		}
	}
	return after
}

// enough refuses to count what too few replicas have. It may count yet, so it is an
// unknown outcome.
func (s *Store) enough(a answer) error {
	if a.copies >= s.to.replicas {
		return nil
	}
	return fmt.Errorf("%s: %d of %d replicas have it in time (min-replicas)", s.to.name, a.copies, s.to.replicas)
}
