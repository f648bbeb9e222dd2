//go:build cgo && linux

package sqlite

import (
	"context"
	"errors"
	"math"
	"time"

	"flockd/backends"
)

// tombstone is how long a released ID stays forbidden. What it must outlast is an
// acquire of the same process that hangs in the file system; the process ends
// soon after its release.
const tombstone = 10 * time.Minute

// seen is HeldError.Seen: the place in line, and its bell before the answer.
type seen struct {
	seq  int64
	word uint32
}

// Acquire implements backends.Backend. A key that is taken is refused by a read
// alone where no place is wanted.
func (s *Store) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := req.Check(); err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	if req.Mode != backends.Exclusive || req.Once != nil {
		return backends.Lease{}, backends.Refuse("", "sqlite: no shared or slot holds and no once yet")
	}
	if req.Place == 0 {
		if err := s.glance(ctx, req); err != nil {
			return backends.Lease{}, s.failed("acquire", req.Key, err)
		}
	}
	lease, err := s.acquire(ctx, req)
	if errors.Is(err, errCeiling) {
		if err = s.raise(ctx); err == nil {
			lease, err = s.acquire(ctx, req)
		}
	}
	if err == nil {
		err = s.unmoved()
	}
	if err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	return lease, nil
}

func (s *Store) acquire(ctx context.Context, req backends.Request) (lease backends.Lease, err error) {
	var held *backends.HeldError
	err = s.step(ctx, logged, func(t *tx) error {
		mine, err := t.claimFor(req)
		if err != nil {
			return err
		}
		first, err := t.first(req.Key)
		if err != nil {
			return err
		}
		switch {
		case first != nil && (mine == nil || first.seq != mine.seq):
			held, err = t.stand(req, first, mine)
			return err
		case mine == nil:
			if mine, err = t.join(req); err != nil {
				return err
			}
		}
		lease, err = t.grant(req, mine)
		return err
	})
	if err == nil && held != nil {
		return lease, held
	}
	return lease, err
}

// claimFor is the live claim of the request's ID, nil if it has none.
func (t *tx) claimFor(req backends.Request) (*claim, error) {
	var ended bool
	if err := t.row("isEnded", req.ID).Scan(&ended); err != nil {
		return nil, err
	}
	if ended {
		return nil, backends.ErrLost
	}
	mine, err := scan(t.row("mine", t.store.prefix, req.Key, req.ID))
	if err != nil || mine == nil {
		return nil, err
	}
	switch boot := t.store.clock.boot; {
	case !mine.ended(boot, t.now):
		return mine, nil
	case mine.live(boot, t.now):
		return nil, backends.ErrLost // it cools
	}
	return nil, t.exec("remove", mine.seq)
}

// first is the first live claim of the key's line. The dead ones before it go.
func (t *tx) first(key string) (*claim, error) {
	for {
		c, err := scan(t.row("first", t.store.prefix, key))
		if err != nil || c == nil || c.live(t.store.clock.boot, t.now) {
			return c, err
		}
		if err := t.exec("remove", c.seq); err != nil {
			return nil, err
		}
	}
}

// stand keeps or takes a place behind first, if one is wanted, and says who is in
// the way.
func (t *tx) stand(req backends.Request, first, mine *claim) (held *backends.HeldError, err error) {
	switch {
	case req.Place == 0:
	case mine == nil:
		mine, err = t.join(req)
	default:
		err = t.exec("extend", t.now, t.now+int64(req.Place), mine.seq)
	}
	if err != nil {
		return nil, err
	}
	before := first
	if mine != nil {
		if before, err = scan(t.row("inFront", t.store.prefix, req.Key, mine.seq)); err != nil {
			return nil, err
		}
	}
	held = t.held(req.Key, first)
	held.RetryAfter = time.Duration(max(before.expires, before.keptTill, t.now) - t.now)
	ahead := int64(math.MaxInt64) // without a place we'd be behind everybody
	if mine != nil {
		ahead = mine.seq
		held.Seen = t.store.place(mine.seq)
	}
	return held, t.row("waiters", ahead, t.store.prefix, req.Key, req.ID, t.store.clock.boot, t.now).Scan(&held.Waiters, &held.Ahead)
}

// held is the answer that first is in the way.
func (t *tx) held(key string, first *claim) *backends.HeldError {
	wall := time.UnixMicro(t.store.wall())
	held := &backends.HeldError{Key: key, AsOf: wall}
	if c := first.public(t.now, wall); c.State == backends.Waiting {
		held.Next = &c
	} else {
		held.Holders = []backends.Claim{c}
	}
	return held
}

// join puts the request at the end of the line.
func (t *tx) join(req backends.Request) (*claim, error) {
	return scan(t.row("join", backends.RecordVersion, t.store.prefix, req.Key, req.ID, req.Mode,
		t.store.clock.boot, t.now, t.now, t.now+int64(req.Place), encode(req.Owner)))
}

// grant makes mine the hold, or extends it if it is one.
func (t *tx) grant(req backends.Request, mine *claim) (backends.Lease, error) {
	until := t.now + int64(req.TTL)
	if mine.state == backends.Holding {
		if err := t.exec("extend", t.now, until, mine.seq); err != nil {
			return backends.Lease{}, err
		}
	} else {
		token, err := t.token()
		if err != nil {
			return backends.Lease{}, err
		}
		mine.token, mine.granted = token, t.now
		if req.MinHold > 0 {
			mine.keptTill = t.now + int64(req.MinHold)
		}
		if err := t.exec("grant", token, t.now, t.now, until, mine.keptTill, mine.seq); err != nil {
			return backends.Lease{}, err
		}
	}
	wall := time.UnixMicro(t.store.wall())
	return backends.Lease{
		Key: req.Key, ID: req.ID, Token: mine.token, Mode: mine.mode, TTL: req.TTL,
		Granted: mine.public(t.now, wall).Granted,
	}, nil
}

// Wait implements backends.Waiter.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	place, ok := held.Seen.(seen)
	bell, err := s.bell()
	if !ok || err != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return bell.wait(ctx, place.seq, place.word)
}

// place is what Wait starts from. It must be taken inside the step: whoever leaves
// the line later rings later.
func (s *Store) place(seq int64) any {
	bell, err := s.bell()
	if err != nil {
		return nil
	}
	word, err := bell.look(seq)
	if err != nil {
		return nil
	}
	return seen{seq, word}
}
