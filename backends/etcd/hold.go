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
		mine, ttl, err := s.prove(ctx, l, s.names(lease.Key), lease)
		if err == nil {
			renewal = backends.Renewal{TTL: ttl, Notice: mine.Notice}
		}
		return err
	})
	if err != nil && !isAnswer(err) {
		s.cluster.abandon() // the next attempt must not hang with this one
	}
	return renewal, s.failed("renew", lease.Key, err)
}

// prove makes a hold last lease.TTL from now, and proves it; one whose token isn't known has 0
// there. The server extends a lease whose claim was deleted, so the claim is read after that. It
// writes only where the TTL isn't what it was, or after an election.
func (s *Store) prove(ctx context.Context, l *link, n names, lease backends.Lease) (*claim, time.Duration, error) {
	id := lease.ID
	t := s.termOf(id, forHold, lease.TTL)
	lasts, ended := l.keepAlive(ctx, t.id)
	if ended != nil && !errors.Is(ended, rpctypes.ErrLeaseNotFound) {
		return nil, 0, ended
	}
	mine, rev, err := l.holder(ctx, n, lease)
	switch {
	case err != nil:
		return nil, 0, err
	case mine.lease == t.id && ended != nil: // it is on its way out
		return nil, 0, ended
	}
	if mine.lease != t.id { // another lease was extended, or none; and one that has ended is not revived
		if lasts, err = l.keepAlive(ctx, mine.lease); err != nil {
			return nil, 0, err
		}
	}
	if now := s.termOf(id, forHold, lease.TTL); mine.lease != now.id {
		moved, err := s.move(ctx, l, n, mine, now)
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			return mine, moved, err
		}
		// A full database takes no new lease, and the old one was extended: better to trust that
		// a deposed leader doesn't come back meanwhile than to give the hold up for certain.
	}
	s.memory.saw(mine)
	s.memory.heard(id, rev)
	return mine, lasts, nil
}

// holder reads the claim of a hold and its twin, as of the revision that it returns. ErrLost: it
// doesn't hold, or its token isn't that of the lease, if that has one.
func (l *link) holder(ctx context.Context, n names, lease backends.Lease) (*claim, int64, error) {
	twin := n.holds(lease.Mode, lease.Slot, lease.ID)
	resp, err := l.txn(ctx, nil, []clientv3.Op{find(n.line, lease.Mode, lease.ID), clientv3.OpGet(twin), clientv3.OpGet(n.ended + lease.ID)}, nil)
	if err != nil {
		return nil, 0, err
	}
	mine, err := decodeFirst(resp.Responses[0])
	if err != nil {
		return nil, 0, err
	}
	if mine != nil && mine.State == backends.Holding {
		err = mine.tokenFrom(resp.Responses[1])
		if err != nil || mine.token != 0 && (lease.Token == 0 || lease.Token == mine.token) {
			return mine, resp.Header.Revision, err
		}
	}
	ended, err := tombstoneOf(resp.Responses[2])
	if err == nil {
		err = ended.gone()
	}
	return nil, 0, err
}

// move puts a hold under a lease of another length, or, after an election, of another Raft
// term. The old one runs out by itself.
func (s *Store) move(ctx context.Context, l *link, n names, mine *claim, t term) (time.Duration, error) {
	lasts, err := l.last(ctx, t)
	if err != nil {
		return 0, err
	}
	r := mine.record
	r.TTL = t.seconds
	puts := []clientv3.Op{clientv3.OpPut(mine.key, encode(r), clientv3.WithLease(t.id)), n.putHold(r, mine.id, t)}
	resp, err := l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, puts, nil)
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
