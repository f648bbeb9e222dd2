//go:build cgo && linux

package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"flockd/backends"
)

// Acquire implements backends.Backend. A key that is taken is refused by a read
// alone where no place is wanted. In the line of a file that was replaced nobody stands: those
// who run are in another one.
func (s *Store) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := req.Check(); err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
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
	if err == nil || errors.Is(err, backends.ErrHeld) {
		err = cmp.Or(s.unmoved(), err)
	}
	if err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	return lease, nil
}

// answer is what a question comes to: a lease, or why there is none.
type answer struct {
	lease backends.Lease
	not   error   // *HeldError or *DoneError
	rings []int64 // whom to wake
}

func (s *Store) acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	var a answer
	err := s.step(ctx, logged, func(t *tx) (err error) {
		a, err = t.answer(req)
		return err
	})
	if err != nil {
		return backends.Lease{}, err
	}
	s.ring(a.rings...)
	return a.lease, a.not
}

func (t *tx) answer(req backends.Request) (answer, error) {
	mine, err := t.claimFor(req)
	if err != nil {
		return answer{}, err
	}
	if mine.holds(t.store.clock.boot, t.now) {
		return t.extend(req, mine)
	}
	if done, err := t.succeeded(req); done != nil || err != nil {
		return t.done(req.Key, done, mine, err)
	}
	first, err := t.first(req.Key)
	if err != nil {
		return answer{}, err
	}
	asks := mine
	if asks == nil {
		asks = newcomer(req)
	}
	comes, slot, err := t.turn(asks, first)
	switch {
	case err != nil:
		return answer{}, err
	case comes && asks.mayHold():
		return t.grant(req, asks, slot)
	}
	if mine, err = t.stand(req, mine); err != nil {
		return answer{}, err
	}
	held, err := t.held(req, first, mine)
	return answer{not: held}, err
}

// claimFor is the live claim of the request's ID, nil if it has none.
func (t *tx) claimFor(req backends.Request) (*claim, error) {
	mine, err := scan(t.row("mine", t.store.prefix, req.Key, req.ID))
	if err != nil || !mine.ended(t.store.clock.boot, t.now) {
		return mine, err
	}
	if err := t.forbidden(req.ID); err != nil {
		return nil, err
	}
	if mine == nil || mine.live(t.store.clock.boot, t.now) {
		return mine, nil
	}
	return nil, t.exec("remove", mine.seq)
}

// done is the answer that the run has succeeded: the place of who waited for it goes.
func (t *tx) done(key string, done *backends.Entry, mine *claim, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	a := answer{not: &backends.DoneError{Key: key, Entry: *done}}
	if mine.waits() {
		a.rings, err = t.remove(mine)
	}
	return a, err
}

// stand keeps or takes a place, if one is wanted, and returns it.
func (t *tx) stand(req backends.Request, mine *claim) (*claim, error) {
	until := t.now + int64(req.Place)
	switch {
	case mine.waits() && req.Place > 0:
		return mine, t.exec("stay", t.now, until, mine.seq)
	case mine != nil || req.Place == 0:
		return mine, nil
	}
	mine = newcomer(req)
	mine.renewed, mine.expires = t.now, until
	if req.Once != nil {
		mine.run = sql.NullString{String: req.Once.ID, Valid: true}
	}
	return mine, t.join(mine)
}

// join puts c at the end of the line.
func (t *tx) join(c *claim) error {
	c.asked = t.now
	return t.row("join", backends.RecordVersion, t.store.prefix, c.key, c.id, c.state, c.mode, c.slots, c.slot,
		c.token, t.store.clock.boot, c.asked, c.granted, c.renewed, c.expires, c.keptTill, c.owner,
		c.run, c.keep).Scan(&c.seq)
}

// grant makes c, which waits or comes only now, the hold of a slot.
func (t *tx) grant(req backends.Request, c *claim, slot int) (a answer, err error) {
	waited := c.seq != atTheEnd
	if c.token, err = t.token(); err != nil {
		return a, err
	}
	c.state, c.slot, c.granted, c.renewed, c.expires = backends.Holding, slot, t.now, t.now, t.now+int64(req.TTL)
	if req.MinHold > 0 {
		c.keptTill = t.now + int64(req.MinHold)
	}
	if req.Once != nil {
		c.run = sql.NullString{String: req.Once.RunAt(t.wall()), Valid: true}
		c.keep = req.Once.KeepFor()
	}
	if !waited {
		return answer{lease: t.lease(req, c)}, t.join(c)
	}
	a.lease = t.lease(req, c)
	if err := t.exec("grant", c.slot, c.token, c.granted, c.renewed, c.expires, c.keptTill, c.run, c.keep, c.seq); err != nil {
		return a, err
	}
	if c.mode == backends.Slots { // the next one waited for this turn, and another slot may be free
		a.rings, err = t.nextTurn(c)
	}
	return a, err
}

// extend is the answer to a holder that asks again.
func (t *tx) extend(req backends.Request, mine *claim) (answer, error) {
	return answer{lease: t.lease(req, mine)}, t.exec("extend", t.now, t.now+int64(req.TTL), mine.seq)
}

func (t *tx) lease(req backends.Request, c *claim) backends.Lease {
	return backends.Lease{
		Key: req.Key, ID: req.ID, Token: c.token, Mode: c.mode, Slot: c.slot, TTL: req.TTL,
		Granted: c.public(t.now, t.wall()).Granted, Run: c.run.String, Keep: c.keep,
	}
}
