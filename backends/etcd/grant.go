package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// absent compares: none of the keys is there.
func absent(keys ...string) (conds []clientv3.Cmp) {
	for _, key := range keys {
		conds = append(conds, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	}
	return conds
}

// unmoved compares: nobody has touched the claim since it was read.
func (c *claim) unmoved() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(c.key), "=", c.mod)
}

// promoted is the record of a claim that waits, as that of one who holds from now on. The
// view may be nil for others than Slots.
func (a *asking) promoted(r record, t term, v *view) record {
	r.State, r.Granted, r.TTL = backends.Holding, time.Now(), t.seconds
	if a.Mode == backends.Slots {
		r.Slot = v.freeSlot(0)
		if later := v.freeSlot(v.waiting()); a.made.crowded && later < a.Slots { // those in front take one each, at this moment
			r.Slot = later
		}
	}
	if a.MinHold > 0 {
		r.MinHold = a.MinHold.String()
	}
	if a.Once != nil {
		r.Run = a.Once.RunAt(r.Granted)
		if keep := a.Once.KeepFor(); keep > 0 {
			r.Keep = keep.String()
		}
	}
	return r
}

// inTheWay is where in line those are who are always in the way of the claim.
func (a *asking) inTheWay() span {
	if a.Mode == backends.Shared {
		return unshared(a.n.line)
	}
	return all(a.n.line)
}

// nobody compares: nobody is in the way of a newcomer. Nil: with slots that takes counting.
func (a *asking) nobody() []clientv3.Cmp {
	switch a.Mode {
	case backends.Slots:
		return nil
	case backends.Shared:
		return []clientv3.Cmp{a.inTheWay().empty(), unshared(a.n.cool).empty()}
	}
	return []clientv3.Cmp{a.inTheWay().empty(), all(a.n.cool).empty()}
}

// conds are the conditions of the grant r. Its claim was before and fitted, which it does
// for as long as it is in line: those who may hold though they stand behind it have counted
// it. Or it was none, and then nobody may have come in its way since the view.
func (a *asking) conds(r record, before *claim, v *view) []clientv3.Cmp {
	conds := absent(a.n.ended + a.ID)
	if r.Run != "" {
		conds = append(conds, absent(a.n.completed(r.Run))...)
	}
	switch a.Mode {
	case backends.Exclusive:
		conds = append(conds, all(a.n.cool).empty())
	case backends.Shared:
		conds = append(conds, unshared(a.n.cool).empty())
	case backends.Slots: // one that is free may cool since, of a hold that came and went
		conds = append(conds, absent(a.n.holds(a.Mode, r.Slot, a.ID))...)
		conds = append(conds, all(a.n.cool).created("<", v.rev+1))
	}
	if before != nil {
		return append(conds, before.unmoved())
	}
	conds = append(conds, absent(a.name())...)
	if a.Mode == backends.Slots {
		return append(conds, all(a.n.line).created("<", v.rev+1))
	}
	return append(conds, a.inTheWay().empty())
}

// puts are what a grant writes under the lease t: the claim and the hold, whose create
// revision is the token. The place counts no more.
func (a *asking) puts(r record, before *claim, t term) []clientv3.Op {
	ops := []clientv3.Op{clientv3.OpPut(a.name(), encode(r), clientv3.WithLease(t.id)), a.n.putHold(r, a.ID, t)}
	if before != nil {
		ops = append(ops, clientv3.OpDelete(a.n.ranked(before.Rank, a.ID)))
	}
	return ops
}

// putHold writes the twin of a claim that holds into the folder of all who do.
func (n names) putHold(r record, id string, t term) clientv3.Op {
	r.ID = id
	return clientv3.OpPut(n.holds(r.Mode, r.Slot, id), encode(r), clientv3.WithLease(t.id))
}

// copyHold writes r into the twin of the hold c, if that is there.
func (n names) copyHold(c *claim, r record) clientv3.Op {
	r.ID = c.id
	twin := n.holds(c.Mode, c.Slot, c.id)
	put := clientv3.OpPut(twin, encode(r), clientv3.WithIgnoreLease())
	its := clientv3.Compare(clientv3.CreateRevision(twin), "=", int64(c.token))
	return clientv3.OpTxn([]clientv3.Cmp{its}, []clientv3.Op{put}, nil)
}

// holds notes the grant of r at revision rev, whose claim was before, if there was one,
// and returns the claim as it is now.
func (a *asking) holds(r record, before *claim, t term, rev int64) *claim {
	c := &claim{record: r, key: a.name(), id: a.ID, create: rev, mod: rev, lease: t.id, token: backends.Token(rev)}
	if before != nil {
		c.create = before.create
	}
	a.s.memory.note(a.ID, func(k *known) {
		k.ear.close()
		k.claim, k.heard, k.ear = c, rev, nil
	})
	return c
}

// granted is the hold of c, whose lease lasts ttl from now unless err says otherwise.
func (a *asking) granted(ctx context.Context, c *claim, ttl time.Duration, err error) (backends.Lease, error) {
	if err == nil && c.lease != a.s.termOf(a.ID, forHold, a.TTL).id {
		return a.extend(ctx, c) // there was an election since the lease was made
	}
	return a.lease(c, ttl), err
}

// hold makes a holder of the claim of the view, or of a newcomer.
func (a *asking) hold(ctx context.Context, v *view) (backends.Lease, error) {
	before := v.mine
	t := a.s.termOf(a.ID, forHold, a.TTL)
	a.made.leases = append(a.made.leases, t.id)
	ttl, err := a.begin(ctx, t)
	if err != nil {
		return backends.Lease{}, a.full(ctx, before, err)
	}
	r := a.record()
	if before != nil {
		r = before.record
	}
	r = a.promoted(r, t, v)
	cooled, cool, err := a.cool(ctx, r)
	if err != nil {
		return backends.Lease{}, err
	}
	resp, err := a.l.txn(ctx, a.conds(r, before, v), append(cool, a.puts(r, before, t)...), nil)
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return backends.Lease{}, a.full(ctx, before, err)
	case err != nil:
		a.made.open = true
		return backends.Lease{}, movedIfEnded(err) // the lease ended before it was used
	case !resp.Succeeded:
		return backends.Lease{}, errMoved
	}
	*a.made = attempt{}
	c := a.holds(r, before, t, resp.Header.Revision)
	return a.granted(ctx, c, ttl, cooled(ctx))
}

// full keeps the place of one whose turn has come in a database that is full. It returns err.
func (a *asking) full(ctx context.Context, before *claim, err error) error {
	if before != nil && errors.Is(err, rpctypes.ErrNoSpace) {
		a.l.keepAlive(ctx, before.lease)
	}
	return err
}

// begin makes the lease of a hold last from now, whether it was prepared or not.
func (a *asking) begin(ctx context.Context, t term) (time.Duration, error) {
	if a.s.memory.recall(a.ID).hold == t {
		ttl, err := a.l.keepAlive(ctx, t.id)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return ttl, err
		}
	}
	return a.l.last(ctx, t)
}

// coolSlack is how much longer than MinHold its lease lasts at least, for the time
// from the lease's beginning to the grant. A request takes some milliseconds.
const coolSlack = 100 * time.Millisecond

// cooling is the lease of a MinHold.
func (a *asking) cooling() term { return termFor(a.ID, forCool, a.MinHold+coolSlack) }

// cool is what the grant r writes for its MinHold, and what must be done after it. The lease
// begins before the grant and must not end before MinHold has passed since.
func (a *asking) cool(ctx context.Context, r record) (after func(context.Context) error, put []clientv3.Op, err error) {
	if a.MinHold <= 0 {
		return func(context.Context) error { return nil }, nil, nil
	}
	t := a.cooling()
	began := time.Now()
	lasts, err := a.l.last(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	r.State = backends.Cooling
	key := a.n.cool + nameOf(a.Mode, a.Slots, a.ID)
	put = []clientv3.Op{clientv3.OpPut(key, encode(r), clientv3.WithLease(t.id))}
	return func(ctx context.Context) error {
		if time.Since(began) <= lasts-a.MinHold {
			return nil
		}
		_, err := a.l.keepAlive(ctx, t.id)
		return err
	}, put, nil
}
