package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// errMoved says that the line isn't any more what it was when it was read.
var errMoved = errors.New("the line has moved")

// Acquire implements backends.Backend. A key that is taken costs one request where no
// place is wanted, and writes nothing.
func (s *Store) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	if err := req.Check(); err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	if !isID(req.ID) {
		return backends.Lease{}, backends.Refuse("", "etcd: an ID is 32 hexadecimal digits, not %q", req.ID)
	}
	var lease backends.Lease
	var made attempt
	err := s.call(ctx, func(ctx context.Context, l *link) (err error) {
		lease, err = (&asking{Request: req, s: s, l: l, n: s.names(req.Key), made: &made}).run(ctx)
		if err == nil {
			s.cluster.versionKnown(ctx)
		}
		return err
	})
	if made.leases != nil && req.Place == 0 && isAnswer(err) {
		err = s.disown(ctx, req.ID, made, err)
	}
	if err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	return lease, nil
}

// asking is one Acquire on one connection.
type asking struct {
	backends.Request
	s    *Store
	l    *link
	n    names
	made *attempt // of this Acquire, on any connection
}

// attempt is what was made for a grant that came to nothing, as far as is known.
type attempt struct {
	leases []clientv3.LeaseID
	open   bool // a grant was asked for, and not answered

	crowded bool // another newcomer was faster to take a slot: it gets into line first
}

// isAnswer reports whether err is final, and the caller takes it that it has no claim.
func isAnswer(err error) bool {
	return errors.Is(err, backends.ErrHeld) || errors.Is(err, backends.ErrDone) || errors.Is(err, backends.ErrRefused) || errors.Is(err, backends.ErrLost)
}

// disown revokes the leases of an attempt, before the answer that is given to the caller.
// A grant that hangs on the way to a member needs its lease, and would otherwise come to
// life when the key is free; and a lease that nobody needs would last for a TTL.
func (s *Store) disown(ctx context.Context, id string, made attempt, answer error) error {
	s.memory.note(id, func(k *known) { k.disowned++ })
	err := s.call(ctx, func(ctx context.Context, l *link) (err error) {
		for _, lease := range made.leases {
			err = cmp.Or(err, l.revoke(ctx, lease))
		}
		return err
	})
	if err != nil && made.open {
		return err
	}
	return answer
}

// run looks at the line and acts on it, until what it did was still right when it came.
func (a *asking) run(ctx context.Context) (backends.Lease, error) {
	lease, v, err := a.hurry(ctx)
	for {
		if errors.Is(err, errMoved) {
			v, err = a.look(ctx)
		}
		if err == nil && v != nil {
			lease, err = a.act(ctx, v)
			v = nil
		}
		if !errors.Is(err, errMoved) {
			return lease, err
		}
	}
}

// hurry takes the turn of one who was told that it has come, without looking first. It
// returns the line where it hasn't, and errMoved where that isn't known.
func (a *asking) hurry(ctx context.Context) (backends.Lease, *view, error) {
	var none backends.Lease
	k := a.s.memory.recall(a.ID)
	if k.claim != nil {
		a.adopt(k.claim)
	}
	if !k.woken {
		return none, nil, errMoved
	}
	a.s.memory.note(a.ID, func(k *known) { k.woken = false })
	if k.claim == nil || !k.claim.mayHold() || a.MinHold > 0 || a.Mode == backends.Slots || !a.prepared(k) {
		return none, nil, errMoved // a slot must be looked for
	}
	t := a.s.termOf(a.ID, forHold, a.TTL)
	r := a.promoted(k.claim.record, t, nil)
	alone := a.inTheWay().created(">", k.claim.create-1)
	if a.Mode == backends.Shared && k.last { // and etcd compares nothing as if it was created at 0
		alone = a.inTheWay().empty()
	}
	conds := append(a.conds(r, k.claim, nil), alone)
	meanwhile := a.keeping(ctx, t) // beside the grant: the hold lasts if both succeed
	resp, err := a.l.txn(ctx, conds, a.puts(r, k.claim, t), a.looks(k.claim))
	if err != nil {
		return none, nil, movedIfEnded(err)
	}
	if !resp.Succeeded {
		v, err := a.view(resp.Header.Revision, resp.Responses)
		if err == nil && !v.mine.samePlace(k.claim) {
			err = errMoved
		}
		return none, v, err
	}
	c := a.holds(r, k.claim, t, resp.Header.Revision)
	lasts := <-meanwhile
	lease, err := a.granted(ctx, c, lasts.ttl, movedIfEnded(lasts.err))
	return lease, nil, err
}

// kept is the answer to a keepAlive.
type kept struct {
	ttl time.Duration
	err error
}

// keeping extends the lease t meanwhile.
func (a *asking) keeping(ctx context.Context, t term) <-chan kept {
	answer := make(chan kept, 1)
	go func() {
		ttl, err := a.l.keepAlive(ctx, t.id)
		answer <- kept{ttl, err}
	}()
	return answer
}

func (a *asking) act(ctx context.Context, v *view) (backends.Lease, error) {
	var none backends.Lease
	fits := v.fits(a.Mode, a.Slots)
	switch {
	case v.ended != nil && !v.mine.asked(), v.mine == nil && v.done == nil && v.cools(a.ID):
		return none, v.ended.gone()
	case v.mine != nil && v.mine.State == backends.Holding:
		return a.extend(ctx, v.mine)
	case v.done != nil:
		if err := a.leave(ctx, v.mine); err != nil {
			return none, err
		}
		return none, &backends.DoneError{Key: a.Key, Entry: *v.done}
	case v.mine == nil && fits && !a.made.crowded:
		lease, err := a.hold(ctx, v)
		a.made.crowded = a.Mode == backends.Slots && errors.Is(err, errMoved)
		return lease, err
	case v.mine == nil && a.Place == 0 && !fits:
		return none, a.held(ctx, v)
	case v.mine == nil:
		var err error
		if v, err = a.join(ctx, v); err != nil {
			return none, err
		}
	case !fits || !v.mine.mayHold():
		if err := a.stay(ctx, v.mine); err != nil {
			return none, err
		}
	}
	switch {
	case v.mine.mayHold() && v.fits(a.Mode, a.Slots):
		return a.hold(ctx, v)
	case a.Place == 0 && a.made.crowded:
		if err := a.leave(ctx, v.mine); err != nil {
			return none, err
		}
		v.mine, v.waiters = nil, v.waiters-1
	}
	return none, a.held(ctx, v)
}

// adopt makes the question one for what the claim is for, which it stays.
func (a *asking) adopt(mine *claim) {
	if a.Mode, a.Slots = mine.Mode, mine.Slots; a.Mode != backends.Exclusive {
		a.Once = nil
	}
}

// name is the key of the claim.
func (a *asking) name() string { return a.n.line + nameOf(a.Mode, a.Slots, a.ID) }

// record is the claim of a newcomer, which waits until it is promoted.
func (a *asking) record() record {
	return record{V: backends.RecordVersion, State: backends.Waiting, Mode: a.Mode, Slots: a.Slots, Owner: a.Owner, Asked: time.Now()}
}

// lease is the answer to the grant of c for ttl.
func (a *asking) lease(c *claim, ttl time.Duration) backends.Lease {
	return backends.Lease{
		Key: a.Key, ID: a.ID, Token: c.token, Mode: a.Mode, Slot: c.Slot, TTL: ttl, Granted: c.Granted, Run: c.Run, Keep: c.keep(),
	}
}

// extend makes a hold that asks again last its TTL from now.
func (a *asking) extend(ctx context.Context, mine *claim) (backends.Lease, error) {
	now, ttl, err := a.s.prove(ctx, a.l, a.n, backends.Lease{ID: a.ID, Mode: a.Mode, Slot: mine.Slot, TTL: a.TTL})
	if errors.Is(err, backends.ErrLost) {
		return backends.Lease{}, errMoved
	}
	if err == nil && now.Notice != (backends.Notice{}) {
		a.s.memory.heard(a.ID, 0) // a lease doesn't tell of it
	}
	if err == nil && a.MinHold > 0 { // the answer to the grant was lost, and with it what is done after it
		_, err = a.l.keepAlive(ctx, a.cooling().id)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			err = nil // it is over
		}
	}
	if err != nil {
		return backends.Lease{}, err
	}
	return a.lease(now, ttl), nil
}

// movedIfEnded is errMoved for a lease that ended meanwhile, and its claim with it.
func movedIfEnded(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errMoved
	}
	return err
}
