package etcd

import (
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
	if req.Mode != backends.Exclusive || req.Once != nil {
		return backends.Lease{}, backends.Refuse("", "etcd: no shared or slot holds and no once yet")
	}
	if !isID(req.ID) {
		return backends.Lease{}, backends.Refuse("", "etcd: an ID is 32 hexadecimal digits, not %q", req.ID)
	}
	var lease backends.Lease
	err := s.call(ctx, func(ctx context.Context, l *link) (err error) {
		lease, err = (&asking{Request: req, s: s, l: l, n: s.names(req.Key)}).run(ctx)
		if err == nil {
			s.cluster.versionKnown(ctx)
		}
		return err
	})
	if err != nil {
		return backends.Lease{}, s.failed("acquire", req.Key, err)
	}
	return lease, nil
}

// asking is one Acquire on one connection.
type asking struct {
	backends.Request
	s *Store
	l *link
	n names

	unused clientv3.LeaseID // a lease that was made for a hold and came too late; 0: none
}

// run looks at the line and acts on it, until what it did was still right when it came.
func (a *asking) run(ctx context.Context) (backends.Lease, error) {
	for {
		v, err := a.s.look(ctx, a.l, a.Key, a.ID)
		if err != nil {
			return backends.Lease{}, err
		}
		lease, err := a.act(ctx, v)
		if errors.Is(err, errMoved) {
			continue
		}
		if a.unused != 0 && a.Place == 0 && errors.Is(err, backends.ErrHeld) {
			a.l.revoke(ctx, a.unused) // or it would stay for a whole TTL; if this fails, it does
		}
		return lease, err
	}
}

func (a *asking) act(ctx context.Context, v *view) (backends.Lease, error) {
	var none backends.Lease
	switch {
	case v.ended, v.mine == nil && v.cools(a.ID):
		return none, backends.ErrLost
	case v.mine != nil && v.mine.State == backends.Holding:
		return a.extend(ctx, v.mine)
	case v.mine == nil && v.free():
		return a.enter(ctx)
	case v.mine == nil && a.Place == 0:
		return none, v.held(a.n, a.ID)
	case v.mine == nil:
		var err error
		if v, err = a.join(ctx); err != nil {
			return none, err
		}
	case v.place(a.ID) > 0 || len(v.cooling()) > 0:
		if err := a.stay(ctx, v.mine); err != nil {
			return none, err
		}
	}
	if v.place(a.ID) > 0 || len(v.cooling()) > 0 {
		return none, v.held(a.n, a.ID)
	}
	return a.promote(ctx, v.mine)
}

// record is the claim of a newcomer.
func (a *asking) record(state backends.State) record {
	r := record{V: backends.RecordVersion, State: state, Mode: a.Mode, Slots: a.Slots, Owner: a.Owner, Asked: time.Now()}
	return r
}

// lease is the answer to a grant of ttl.
func (a *asking) lease(token backends.Token, granted time.Time, ttl time.Duration) backends.Lease {
	return backends.Lease{Key: a.Key, ID: a.ID, Token: token, Mode: a.Mode, TTL: ttl, Granted: granted}
}

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

// enter takes a key that nobody has or waits for.
func (a *asking) enter(ctx context.Context) (backends.Lease, error) {
	r := a.record(backends.Holding)
	r.Granted = r.Asked
	return a.hold(ctx, r, nil)
}

// promote makes the first in line the holder. Its place in line, which is its
// token, stays.
func (a *asking) promote(ctx context.Context, mine *claim) (backends.Lease, error) {
	r := mine.record
	r.State, r.Granted = backends.Holding, time.Now()
	return a.hold(ctx, r, mine)
}

// hold writes the claim r of a holder, in the place of the claim before if there is one.
func (a *asking) hold(ctx context.Context, r record, before *claim) (backends.Lease, error) {
	t := termFor(a.ID, forHold, a.TTL)
	ttl, err := a.l.last(ctx, t)
	if err != nil {
		return backends.Lease{}, err
	}
	a.unused = t.id
	r.TTL = t.seconds
	conds := append(empty(a.n.cool), absent(a.n.ended+a.ID)...)
	if before == nil {
		conds = append(conds, empty(a.n.line)...)
	} else {
		conds = append(conds, before.unmoved())
	}
	cooled, put, err := a.cool(ctx, &r, before)
	if err != nil {
		return backends.Lease{}, err
	}
	put = append(put, clientv3.OpPut(a.n.line+a.ID, encode(r), clientv3.WithLease(t.id)))
	resp, err := a.l.txn(ctx, conds, put, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // it ended before it was used
		return backends.Lease{}, errMoved
	case err != nil:
		return backends.Lease{}, err
	case !resp.Succeeded:
		return backends.Lease{}, errMoved
	}
	a.unused = 0
	a.s.knows(a.ID, resp.Header.Revision)
	token := backends.Token(resp.Header.Revision) // which is the claim's create revision
	if before != nil {
		token = before.token()
	}
	return a.lease(token, r.Granted, ttl), cooled(ctx)
}

// coolSlack is how much longer than MinHold its lease lasts at least, for the time
// from the lease's beginning to the grant. A request takes some milliseconds.
const coolSlack = 100 * time.Millisecond

// cool is what a grant writes for its MinHold, and what must be done after it. The lease
// begins before the grant and must not end before MinHold has passed since.
func (a *asking) cool(ctx context.Context, r *record, before *claim) (after func(context.Context) error, put []clientv3.Op, err error) {
	if a.MinHold <= 0 {
		return func(context.Context) error { return nil }, nil, nil
	}
	r.MinHold = a.MinHold.String()
	t := termFor(a.ID, forCool, a.MinHold+coolSlack)
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

// extend makes a hold that asks again last its TTL from now.
func (a *asking) extend(ctx context.Context, mine *claim) (backends.Lease, error) {
	_, ttl, err := a.s.prove(ctx, a.l, a.Key, a.ID, mine.token(), a.TTL)
	if errors.Is(err, backends.ErrLost) {
		return backends.Lease{}, errMoved
	}
	return a.lease(mine.token(), mine.Granted, ttl), err
}

// join takes the last place in line, and returns the line with it.
func (a *asking) join(ctx context.Context) (*view, error) {
	t := termFor(a.ID, forPlace, a.Place)
	if _, err := a.l.last(ctx, t); err != nil {
		return nil, err
	}
	put := clientv3.OpPut(a.n.line+a.ID, encode(a.record(backends.Waiting)), clientv3.WithLease(t.id))
	conds := absent(a.n.line+a.ID, a.n.cool+a.ID, a.n.ended+a.ID)
	resp, err := a.l.txn(ctx, conds, append([]clientv3.Op{put}, a.n.looks(a.ID)...), nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return nil, errMoved
	case err != nil:
		return nil, err
	case !resp.Succeeded:
		return nil, errMoved
	}
	return a.n.view(a.Key, resp.Header.Revision, resp.Responses[1:])
}

// stay keeps the place of a claim that waits, for a.Place from now.
func (a *asking) stay(ctx context.Context, mine *claim) error {
	if a.Place == 0 {
		return nil
	}
	t := termFor(a.ID, forPlace, a.Place)
	if mine.lease == t.id {
		_, err := a.l.keepAlive(ctx, t.id)
		return movedIfEnded(err)
	}
	if _, err := a.l.last(ctx, t); err != nil {
		return err
	}
	move := clientv3.OpPut(mine.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(t.id))
	resp, err := a.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, []clientv3.Op{move}, nil)
	if err == nil && !resp.Succeeded {
		return errMoved
	}
	return movedIfEnded(err)
}

// movedIfEnded is errMoved for a lease that ended meanwhile, and its claim with it.
func movedIfEnded(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errMoved
	}
	return err
}
