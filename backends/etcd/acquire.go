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
	lease, v, err := a.hurry(ctx)
	for {
		if errors.Is(err, errMoved) {
			v, err = a.s.look(ctx, a.l, a.Key, a.ID)
		}
		if err == nil && v != nil {
			lease, err = a.act(ctx, v)
			v = nil
		}
		if !errors.Is(err, errMoved) {
			break
		}
	}
	if a.unused != 0 && a.Place == 0 && errors.Is(err, backends.ErrHeld) {
		a.l.revoke(ctx, a.unused) // or it would stay for a whole TTL; if this fails, it does
	}
	return lease, err
}

// hurry takes the turn of one who was told that it has come, without looking first. It
// returns the line where it hasn't, and errMoved where that isn't known.
func (a *asking) hurry(ctx context.Context) (backends.Lease, *view, error) {
	var none backends.Lease
	k := a.s.memory.recall(a.ID)
	if !k.woken {
		return none, nil, errMoved
	}
	a.s.memory.note(a.ID, func(k *known) { k.woken = false })
	if k.claim == nil || k.claim.State != backends.Waiting || a.MinHold > 0 || !a.prepared(k) {
		return none, nil, errMoved
	}
	t := a.s.termOf(a.ID, forHold, a.TTL)
	r := k.claim.promoted(t)
	alone := clientv3.Compare(clientv3.CreateRevision(a.n.line).WithPrefix(), ">", k.claim.create-1)
	conds := append(a.conds(k.claim), alone)
	resp, err := a.l.txn(ctx, conds, []clientv3.Op{a.put(r, t)}, a.n.looks(a.ID))
	if err != nil {
		return none, nil, movedIfEnded(err)
	}
	if !resp.Succeeded {
		v, err := a.n.view(a.Key, resp.Header.Revision, resp.Responses)
		return none, v, err
	}
	c := a.holds(r, k.claim, t, resp.Header.Revision)
	if a.s.termOf(a.ID, forHold, a.TTL) != t { // there was an election since it was made
		lease, err := a.extend(ctx, c)
		return lease, nil, err
	}
	ttl, err := a.l.keepAlive(ctx, t.id)
	return a.lease(c.token(), r.Granted, ttl), nil, movedIfEnded(err)
}

// prepared reports whether the lease for a hold is there and won't end soon.
func (a *asking) prepared(k known) bool {
	return k.hold == a.s.termOf(a.ID, forHold, a.TTL) && time.Since(k.prepared) < a.TTL/2
}

// prepare makes the lease for a hold to come, so that the hand-over is a single write. One
// with a MinHold has more to write, and looks first; one that is shorter than a
// place would need to be made again and again.
func (a *asking) prepare(ctx context.Context) error {
	if a.MinHold > 0 || a.TTL < a.Place || a.prepared(a.s.memory.recall(a.ID)) {
		return nil
	}
	t := a.s.termOf(a.ID, forHold, a.TTL)
	_, err := a.l.last(ctx, t)
	if err == nil {
		a.s.memory.note(a.ID, func(k *known) { k.hold, k.prepared = t, time.Now() })
	}
	return err
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
	return record{V: backends.RecordVersion, State: state, Mode: a.Mode, Slots: a.Slots, Owner: a.Owner, Asked: time.Now()}
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
	c := claim{record: a.record(backends.Holding)}
	return a.hold(ctx, c.promoted(a.s.termOf(a.ID, forHold, a.TTL)), nil)
}

// promote makes the first in line the holder. Its place in line, which is its
// token, stays.
func (a *asking) promote(ctx context.Context, mine *claim) (backends.Lease, error) {
	return a.hold(ctx, mine.promoted(a.s.termOf(a.ID, forHold, a.TTL)), mine)
}

// promoted is the record of a claim that waits, as a holder's.
func (c *claim) promoted(t term) record {
	r := c.record
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
	a.unused = 0
	a.s.memory.saw(c)
	if r.Notice == (backends.Notice{}) {
		a.s.memory.heard(a.ID, rev)
	}
	return c
}

// hold writes the claim r of a holder, in the place of the claim before if there is one.
func (a *asking) hold(ctx context.Context, r record, before *claim) (backends.Lease, error) {
	t := a.s.termOf(a.ID, forHold, a.TTL)
	ttl, err := a.begin(ctx, t)
	if err != nil {
		return backends.Lease{}, err
	}
	a.unused = t.id
	cooled, put, err := a.cool(ctx, &r, before)
	if err != nil {
		return backends.Lease{}, err
	}
	resp, err := a.l.txn(ctx, a.conds(before), append(put, a.put(r, t)), nil)
	switch {
	case err != nil:
		return backends.Lease{}, movedIfEnded(err) // the lease ended before it was used
	case !resp.Succeeded:
		return backends.Lease{}, errMoved
	}
	c := a.holds(r, before, t, resp.Header.Revision)
	if err := cooled(ctx); err != nil || a.s.termOf(a.ID, forHold, a.TTL) == t {
		return a.lease(c.token(), r.Granted, ttl), err
	}
	return a.extend(ctx, c) // there was an election meanwhile
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
	now, ttl, err := a.s.prove(ctx, a.l, a.Key, a.ID, mine.token(), a.TTL)
	if err == nil && now.Notice != (backends.Notice{}) {
		a.s.memory.heard(a.ID, 0) // a lease doesn't tell of it
	}
	if errors.Is(err, backends.ErrLost) {
		return backends.Lease{}, errMoved
	}
	return a.lease(mine.token(), mine.Granted, ttl), err
}

// join takes the last place in line, and returns the line with it.
func (a *asking) join(ctx context.Context) (*view, error) {
	t := a.s.termOf(a.ID, forPlace, a.Place)
	prepared := make(chan error, 1)
	go func() { prepared <- a.prepare(ctx) }()
	_, err := a.l.last(ctx, t)
	if err = cmp.Or(err, <-prepared); err != nil {
		return nil, err
	}
	put := clientv3.OpPut(a.n.line+a.ID, encode(a.record(backends.Waiting)), clientv3.WithLease(t.id))
	conds := absent(a.n.line+a.ID, a.n.cool+a.ID, a.n.ended+a.ID)
	resp, err := a.l.txn(ctx, conds, append([]clientv3.Op{put}, a.n.looks(a.ID)...), nil)
	switch {
	case err != nil:
		return nil, movedIfEnded(err)
	case !resp.Succeeded:
		return nil, errMoved
	}
	v, err := a.n.view(a.Key, resp.Header.Revision, resp.Responses[1:])
	if err == nil {
		a.s.memory.saw(v.mine)
	}
	return v, err
}

// stay keeps the place of a claim that waits, for a.Place from now.
func (a *asking) stay(ctx context.Context, mine *claim) error {
	if a.Place == 0 {
		return nil
	}
	t := a.s.termOf(a.ID, forPlace, a.Place)
	a.s.memory.saw(mine)
	if err := a.prepare(ctx); err != nil {
		return err
	}
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
