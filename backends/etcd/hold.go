package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// Renew implements backends.Backend.
func (s *Store) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	var renewal backends.Renewal
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		mine, ttl, err := s.prove(ctx, l, lease.Key, lease.ID, lease.Token, lease.TTL)
		if err == nil {
			renewal = backends.Renewal{TTL: ttl, Notice: mine.Notice}
		}
		return err
	})
	return renewal, s.failed("renew", lease.Key, err)
}

// prove makes a hold last ttl from now, and proves it. The server extends a lease
// whose claim was deleted, so the claim is read after that. It writes
// only where the TTL isn't what it was.
func (s *Store) prove(ctx context.Context, l *link, key, id string, token backends.Token, ttl time.Duration) (*claim, time.Duration, error) {
	t := termFor(id, forHold, ttl)
	lasts, ended := l.keepAlive(ctx, t.id)
	if ended != nil && !errors.Is(ended, rpctypes.ErrLeaseNotFound) {
		return nil, 0, ended
	}
	n := s.names(key)
	resp, err := l.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(n.line + id)}, nil)
	if err != nil {
		return nil, 0, err
	}
	mine, err := decodeFirst(resp.Responses[0])
	switch {
	case err != nil:
		return nil, 0, err
	case mine == nil || mine.token() != token || mine.State != backends.Holding:
		return nil, 0, backends.ErrLost
	case mine.lease == t.id && ended != nil: // it is on its way out
		return nil, 0, ended
	case mine.lease != t.id:
		if lasts, err = s.move(ctx, l, mine, t); err != nil {
			return nil, 0, err
		}
	}
	s.knows(id, resp.Header.Revision)
	return mine, lasts, nil
}

// move puts a hold under a lease of another length. The old one runs out by itself.
func (s *Store) move(ctx context.Context, l *link, mine *claim, t term) (time.Duration, error) {
	lasts, err := l.last(ctx, t)
	if err != nil {
		return 0, err
	}
	r := mine.record
	r.TTL = t.seconds
	put := clientv3.OpPut(mine.key, encode(r), clientv3.WithLease(t.id))
	resp, err := l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, []clientv3.Op{put}, nil)
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, errMoved // its next renewal tells whether it is gone or was left a notice
	}
	s.knows(mine.id, resp.Header.Revision)
	return lasts, nil
}

// endedFor is how long an ID stays forbidden that had no lease of its own, or a short
// one. What it must outlast is a request that hangs on the way; its client has
// closed the connection by then.
const endedFor = 20 * time.Minute

// A hold's own lease is enough for its tombstone if it is at least this long: a
// request for the same ID that comes late needs that lease, or the one of its
// place, which is no longer than this.
const ownEnough = time.Minute

// Release implements backends.Backend.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	s.forget(id)
	if !isID(id) {
		return s.failed("release", key, backends.ErrLost)
	}
	r := releasing{s: s, n: s.names(key), key: key, id: id, outcome: outcome, sign: backends.NewID()}
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		r.l = l
		err := errMoved
		for errors.Is(err, errMoved) {
			err = r.run(ctx)
		}
		return err
	})
	return s.failed("release", key, err)
}

// releasing is one Release.
type releasing struct {
	s       *Store
	l       *link
	n       names
	key, id string
	outcome backends.Outcome
	sign    string // in the tombstone: tells that an earlier try of the same call was applied
}

// tombstone is the JSON of a released ID.
type tombstone struct {
	V    int    `json:"v"`
	Sign string `json:"sign,omitempty"`
}

func (r *releasing) run(ctx context.Context) error {
	reads := []clientv3.Op{clientv3.OpGet(r.n.line + r.id), clientv3.OpGet(r.n.ended + r.id)}
	resp, err := r.l.txn(ctx, nil, reads, nil)
	if err != nil {
		return err
	}
	mine, err := decodeFirst(resp.Responses[0])
	if err != nil {
		return err
	}
	if ends := kvs(resp.Responses[1]); len(ends) > 0 {
		var t tombstone
		if err := decode(ends[0], &t, &t.V); err != nil {
			return err
		}
		if t.Sign == r.sign {
			return nil
		}
		return backends.ErrLost
	}
	if mine == nil {
		return r.forbid(ctx)
	}
	return r.end(ctx, mine)
}

// forbid forbids an ID that has no claim.
func (r *releasing) forbid(ctx context.Context) error {
	t := termFor(r.id, forEnd, endedFor)
	if _, err := r.l.last(ctx, t); err != nil {
		return err
	}
	resp, err := r.l.txn(ctx, absent(r.n.line+r.id), []clientv3.Op{r.bury(t.id)}, nil)
	switch {
	case err != nil:
		return movedIfEnded(err)
	case !resp.Succeeded:
		return errMoved
	}
	return backends.ErrLost
}

func (r *releasing) bury(lease clientv3.LeaseID) clientv3.Op {
	t := tombstone{V: backends.RecordVersion, Sign: r.sign}
	return clientv3.OpPut(r.n.ended+r.id, encode(t), clientv3.WithLease(lease))
}

// end takes a claim out of the line and records its run, in one step. Its MinHold
// stays.
func (r *releasing) end(ctx context.Context, mine *claim) error {
	under := mine.lease
	if mine.State != backends.Holding || mine.TTL < int64(ownEnough/time.Second) {
		t := termFor(r.id, forEnd, endedFor)
		if _, err := r.l.last(ctx, t); err != nil {
			return r.orEndOnly(ctx, mine, err)
		}
		under = t.id
	}
	kept := runsTerm(r.s.prefix, time.Now())
	then := append([]clientv3.Op{clientv3.OpDelete(mine.key), r.bury(under)}, r.runs(mine, kept)...)
	resp, err := r.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, then, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // the runs', or the claim's, which the next look tells
		if _, err := r.l.last(ctx, kept); err != nil {
			return err
		}
		return errMoved
	case err != nil:
		return r.orEndOnly(ctx, mine, err)
	case !resp.Succeeded:
		return errMoved
	}
	return nil
}

// orEndOnly gives the key back though nothing can be written, because the database is
// full: it deletes the claim, and the lease that a late request would need.
func (r *releasing) orEndOnly(ctx context.Context, mine *claim, err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	resp, err := r.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, []clientv3.Op{clientv3.OpDelete(mine.key)}, nil)
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return errMoved
	}
	return r.l.revoke(ctx, mine.lease)
}

// runs are the records of the run that ended.
func (r *releasing) runs(mine *claim, kept term) (put []clientv3.Op) {
	if mine.State != backends.Holding || r.outcome == (backends.Outcome{}) {
		return nil
	}
	text := encode(run{V: backends.RecordVersion, Run: backends.Run{
		Owner: mine.Owner, Token: mine.token(), Start: mine.Granted, End: time.Now(),
		Class: r.outcome.Class, Exit: r.outcome.Exit,
	}})
	put = append(put, clientv3.OpPut(r.n.last, text, clientv3.WithLease(kept.id)))
	if r.outcome.Success {
		put = append(put, clientv3.OpPut(r.n.success, text, clientv3.WithLease(kept.id)))
	}
	return put
}
