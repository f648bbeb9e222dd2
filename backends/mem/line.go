package mem

import (
	"slices"
	"time"

	"flockd/backends"
)

// A record is what the store knows of one key.
type record struct {
	line        []*claim // first in line first
	lastToken   backends.Token
	last        *backends.Run
	lastSuccess *backends.Run
	ended       map[string]backends.Notice // IDs that were released, removed or asked to leave the line
	done        []backends.Entry
	changed     chan struct{} // closed when the line moves
}

// A claim is in line until its lease and its MinHold have both ended. It holds
// until its lease has.
type claim struct {
	backends.Claim
	once     *backends.Once  // what it waits for
	lease    backends.Lease  // once granted
	told     backends.Notice // by the latest renewal
	leaseEnd time.Time
	cool     time.Time // grant plus MinHold
}

func newClaim(req backends.Request, now time.Time) *claim {
	return &claim{leaseEnd: now, once: req.Once, Claim: backends.Claim{
		ID: req.ID, State: backends.Waiting, Mode: req.Mode, Slots: req.Slots, Owner: req.Owner, Asked: now, Expires: now,
	}}
}

// lasts makes the lease end at leaseEnd.
func (c *claim) lasts(leaseEnd time.Time) {
	c.leaseEnd, c.Expires = leaseEnd, leaseEnd
	if c.cool.After(leaseEnd) {
		c.Expires = c.cool
	}
}

// mayHold reports whether the claim may be granted the key when its turn comes.
func (c *claim) mayHold() bool { return c.State == backends.Waiting && c.Notice == backends.Notice{} }

// extend makes a hold last ttl from now.
func (c *claim) extend(now time.Time, ttl time.Duration) backends.Lease {
	c.Renewed, c.lease.TTL, c.TTL = now, ttl, ttl
	c.lasts(now.Add(ttl))
	return c.lease
}

// wait keeps the place of a waiting claim for that long, unless it has longer already.
func (c *claim) wait(now time.Time, place time.Duration) {
	if until := now.Add(place); c.State == backends.Waiting && until.After(c.leaseEnd) {
		c.lasts(until)
	}
}

// settle drops the claims that have ended by now, and lets those cool whose lease has.
func (r *record) settle(now time.Time) {
	r.line = slices.DeleteFunc(r.line, func(c *claim) bool { return !now.Before(c.Expires) })
	for _, c := range r.line {
		if c.State == backends.Holding && !now.Before(c.leaseEnd) {
			c.State, c.TTL = backends.Cooling, 0
		}
	}
}

// place is where id is in line, -1 if it isn't.
func (r *record) place(id string) int {
	return slices.IndexFunc(r.line, func(c *claim) bool { return c.ID == id })
}

// holding is the hold of id, nil if it has none.
func (r *record) holding(id string) *claim {
	if place := r.place(id); place >= 0 && r.line[place].State == backends.Holding {
		return r.line[place]
	}
	return nil
}

// gone is the answer to what is asked for an ID that has ended.
func (r *record) gone(id string) error {
	if notice := r.ended[id]; notice != (backends.Notice{}) {
		return &backends.RemovedError{Notice: notice}
	}
	return backends.ErrLost
}

// waits reports whether the claim at place waits; -1 is none.
func (r *record) waits(place int) bool { return place >= 0 && r.line[place].State == backends.Waiting }

// front is a copy of the claims in front of place.
func (r *record) front(place int) []backends.Claim {
	var claims []backends.Claim
	for _, c := range r.line[:place] {
		claims = append(claims, c.Claim)
	}
	return claims
}

// remove takes the claim at place, if there is one, out of the line.
func (r *record) remove(place int) {
	if place >= 0 {
		r.line = slices.Delete(r.line, place, place+1)
		r.moved()
	}
}

// moved wakes everybody who waits for the line; see Store.Wait.
func (r *record) moved() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// grant turns the waiting claim at place into a hold.
func (r *record) grant(place int, req backends.Request, now time.Time) backends.Lease {
	c := r.line[place]
	c.Slot = r.freeSlot(c.Mode)
	r.lastToken = max(r.lastToken+1, backends.Token(now.UnixMicro()))
	c.State, c.Token, c.Granted, c.cool = backends.Holding, r.lastToken, now, now.Add(req.MinHold)
	c.lease = backends.Lease{Key: req.Key, ID: c.ID, Token: c.Token, Mode: c.Mode, Slot: c.Slot, Granted: now}
	if req.Once != nil {
		c.lease.Run, c.lease.Keep = req.Once.RunAt(now), req.Once.KeepFor()
	}
	r.moved()
	return c.extend(now, req.TTL)
}

// freeSlot is the lowest slot that nobody has.
func (r *record) freeSlot(mode backends.Mode) int {
	slot := 0
	taken := func(c *claim) bool { return c.State != backends.Waiting && c.Slot == slot }
	for mode == backends.Slots && slices.ContainsFunc(r.line, taken) {
		slot++
	}
	return slot
}

// end ends the hold at place: the key is free once its MinHold has passed.
func (r *record) end(place int, outcome backends.Outcome, now time.Time) {
	c := r.line[place]
	if outcome != (backends.Outcome{}) {
		r.last = &backends.Run{
			Owner: c.Owner, Token: c.Token, Start: c.Granted, End: now, Class: outcome.Class, Exit: outcome.Exit,
			Notice: outcome.Notice,
		}
		if outcome.Success {
			r.lastSuccess = r.last
		}
	}
	c.lasts(now)
	r.settle(now)
	r.moved()
}

// held says who is in the way of the claim at place.
func (r *record) held(place int, key string, now time.Time) *backends.HeldError {
	held := &backends.HeldError{Key: key, AsOf: now}
	for i, c := range r.line {
		switch {
		case c.State != backends.Waiting:
			held.Holders = append(held.Holders, c.Claim)
		case i < place:
			held.Ahead++
			held.Waiters++
		case i > place:
			held.Waiters++
		}
	}
	if len(held.Holders) == 0 {
		held.Next = &r.front(1)[0]
	}
	held.Notice = r.line[place].Notice
	w := r.watch(place, now)
	held.Seen, held.RetryAfter = w, w.ends.Sub(now)
	return held
}
