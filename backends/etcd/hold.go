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
// only where the TTL isn't what it was, or after an election.
func (s *Store) prove(ctx context.Context, l *link, key, id string, token backends.Token, ttl time.Duration) (*claim, time.Duration, error) {
	t := s.termOf(id, forHold, ttl)
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
	}
	if mine.lease != t.id { // another lease was extended, or none; and one that has ended is not revived
		if lasts, err = l.keepAlive(ctx, mine.lease); err != nil {
			return nil, 0, err
		}
	}
	if now := s.termOf(id, forHold, ttl); mine.lease != now.id {
		lasts, err = s.move(ctx, l, mine, now)
		return mine, lasts, err
	}
	s.memory.saw(mine)
	s.memory.heard(id, resp.Header.Revision)
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
	moved := *mine
	moved.record, moved.lease, moved.mod = r, t.id, resp.Header.Revision
	s.memory.saw(&moved)
	s.memory.heard(mine.id, moved.mod)
	return lasts, nil
}

// endedFor is how long an ID stays forbidden that had no lease of its own, or a short
// one. What it must outlast is a request that hangs on the way; its client has
// closed the connection by then.
const endedFor = 20 * time.Minute

// The lease of a hold, or of one to come, is enough for its tombstone if it is at least this
// long: a request for the same ID that comes late needs that lease, or the one of
// its place, which is shorter.
const ownEnough = time.Minute

// Release implements backends.Backend.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	if !isID(id) {
		return s.failed("release", key, backends.ErrLost)
	}
	r := releasing{s: s, n: s.names(key), key: key, id: id, outcome: outcome, sign: backends.NewID()}
	r.known = s.memory.recall(id)
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		r.l = l
		err := errMoved
		for errors.Is(err, errMoved) {
			err = r.run(ctx)
		}
		return err
	})
	if err == nil || errors.Is(err, backends.ErrLost) {
		s.memory.forget(id)
	}
	return s.failed("release", key, err)
}

// releasing is one Release.
type releasing struct {
	s       *Store
	l       *link
	n       names
	key, id string
	outcome backends.Outcome
	known   known
	sign    string // in the tombstone: tells that an earlier try of the same call was applied
}

// tombstone is the JSON of a released ID.
type tombstone struct {
	V    int    `json:"v"`
	Sign string `json:"sign,omitempty"`
}

// run ends what the ID has: what is known of it, or else what is found. It returns
// errMoved where that isn't so any more.
func (r *releasing) run(ctx context.Context) error {
	mine := r.known.claim
	r.known.claim = nil // the next run reads
	if mine == nil {
		var err error
		if mine, err = r.read(ctx); err != nil || mine == nil {
			return err
		}
	}
	return r.end(ctx, mine)
}

// read finds the claim. Nil without an error: this call has ended it already.
func (r *releasing) read(ctx context.Context) (*claim, error) {
	reads := []clientv3.Op{clientv3.OpGet(r.n.line + r.id), clientv3.OpGet(r.n.ended + r.id)}
	resp, err := r.l.txn(ctx, nil, reads, nil)
	if err != nil {
		return nil, err
	}
	mine, err := decodeFirst(resp.Responses[0])
	if err != nil {
		return nil, err
	}
	if ends := kvs(resp.Responses[1]); len(ends) > 0 {
		var t tombstone
		if err := decode(ends[0], &t, &t.V); err != nil {
			return nil, err
		}
		if t.Sign == r.sign {
			return nil, nil
		}
		return nil, backends.ErrLost
	}
	if mine == nil {
		return nil, r.forbid(ctx)
	}
	return mine, nil
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
	under, err := r.under(ctx, mine)
	if err != nil {
		return r.orEndOnly(ctx, mine, err)
	}
	kept := runsTerm(r.s.prefix, time.Now())
	then := append([]clientv3.Op{clientv3.OpDelete(mine.key), r.bury(under)}, r.runs(mine, kept)...)
	resp, err := r.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, then, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // the runs', or another, which the next run tells
		r.known = known{}
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

// under is the lease for the tombstone of a claim.
func (r *releasing) under(ctx context.Context, mine *claim) (clientv3.LeaseID, error) {
	enough := int64(ownEnough / time.Second)
	switch {
	case mine.State == backends.Holding && mine.TTL >= enough:
		return mine.lease, nil
	case mine.State == backends.Waiting && r.known.hold.seconds >= enough:
		return r.known.hold.id, nil
	}
	t := termFor(r.id, forEnd, endedFor)
	_, err := r.l.last(ctx, t)
	return t.id, err
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
