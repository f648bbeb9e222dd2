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

// empty compares: nothing is in the folders.
func empty(folders ...string) (conds []clientv3.Cmp) {
	for _, folder := range folders {
		conds = append(conds, clientv3.Compare(clientv3.CreateRevision(folder).WithPrefix(), "=", 0))
	}
	return conds
}

// unmoved compares: nobody has touched the claim since it was read.
func (c *claim) unmoved() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(c.key), "=", c.mod)
}

// promoted is the record of a claim that waits, as that of one who holds from now on.
func (r record) promoted(t term) record {
	r.State, r.Granted, r.TTL = backends.Holding, time.Now(), t.seconds
	return r
}

// conds are the conditions of a grant, whose claim was before, if there was one.
func (a *asking) conds(before *claim) []clientv3.Cmp {
	conds := append(empty(a.n.cool), absent(a.n.ended+a.ID)...)
	if before == nil {
		return append(conds, empty(a.n.line)...)
	}
	return append(conds, before.unmoved())
}

// put writes the claim r under the lease t.
func (a *asking) put(r record, t term) clientv3.Op {
	return clientv3.OpPut(a.n.line+a.ID, encode(r), clientv3.WithLease(t.id))
}

// holds notes the grant of r at revision rev, whose claim was before, if there was one,
// and returns the claim as it is now.
func (a *asking) holds(r record, before *claim, t term, rev int64) *claim {
	c := &claim{record: r, key: a.n.line + a.ID, id: a.ID, create: rev, mod: rev, lease: t.id}
	if before != nil {
		c.create = before.create
	}
	a.s.memory.saw(c)
	if r.Notice == (backends.Notice{}) {
		a.s.memory.heard(a.ID, rev)
	}
	return c
}

// granted is the hold of c, whose lease lasts ttl from now unless err says otherwise.
func (a *asking) granted(ctx context.Context, c *claim, ttl time.Duration, err error) (backends.Lease, error) {
	if err == nil && c.lease != a.s.termOf(a.ID, forHold, a.TTL).id {
		return a.extend(ctx, c) // there was an election since the lease was made
	}
	return a.lease(c.token(), c.Granted, ttl), err
}

// hold makes a holder of the claim r. It is before's if that isn't nil, whose place in line,
// which is its token, stays.
func (a *asking) hold(ctx context.Context, r record, before *claim) (backends.Lease, error) {
	t := a.s.termOf(a.ID, forHold, a.TTL)
	r = r.promoted(t)
	a.made.leases = append(a.made.leases, t.id)
	ttl, err := a.begin(ctx, t)
	if err != nil {
		return backends.Lease{}, a.full(ctx, before, err)
	}
	cooled, put, err := a.cool(ctx, &r, before)
	if err != nil {
		return backends.Lease{}, err
	}
	resp, err := a.l.txn(ctx, a.conds(before), append(put, a.put(r, t)), nil)
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

// cool is what a grant writes for its MinHold, and what must be done after it. The lease
// begins before the grant and must not end before MinHold has passed since.
func (a *asking) cool(ctx context.Context, r *record, before *claim) (after func(context.Context) error, put []clientv3.Op, err error) {
	if a.MinHold <= 0 {
		return func(context.Context) error { return nil }, nil, nil
	}
	r.MinHold = a.MinHold.String()
	t := a.cooling()
	began := time.Now()
	lasts, err := a.l.last(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	twin := *r
	twin.State = backends.Cooling
	if before != nil {
		twin.Token = before.token()
	}
	put = []clientv3.Op{clientv3.OpPut(a.n.cool+a.ID, encode(twin), clientv3.WithLease(t.id))}
	return func(ctx context.Context) error {
		if time.Since(began) <= lasts-a.MinHold {
			return nil
		}
		_, err := a.l.keepAlive(ctx, t.id)
		return err
	}, put, nil
}
