package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// Ask implements backends.Backend.
func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	if !isID(id) {
		return s.failed("ask", key, backends.ErrNotFound)
	}
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		err := errMoved
		for errors.Is(err, errMoved) {
			err = s.ask(ctx, l, s.names(key), id, notice)
		}
		return err
	})
	return s.failed("ask", key, err)
}

// ask tells or removes what id has: its claim, its MinHold, or both.
func (s *Store) ask(ctx context.Context, l *link, n names, id string, notice backends.Notice) error {
	resp, err := l.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(n.line + id), clientv3.OpGet(n.cool + id)}, nil)
	if err != nil {
		return err
	}
	var theirs []*claim
	for _, answer := range resp.Responses {
		c, err := decodeFirst(answer)
		if err != nil {
			return err
		}
		if c != nil {
			theirs = append(theirs, c)
		}
	}
	switch {
	case len(theirs) == 0:
		return backends.ErrNotFound
	case notice.Force:
		return s.force(ctx, l, n, id, theirs)
	}
	return s.notify(ctx, l, theirs[0], notice)
}

// notify writes the notice into the claim.
func (s *Store) notify(ctx context.Context, l *link, theirs *claim, notice backends.Notice) error {
	r := theirs.record
	r.Notice = notice
	put := clientv3.OpPut(theirs.key, encode(r), clientv3.WithIgnoreLease())
	resp, err := l.txn(ctx, []clientv3.Cmp{theirs.unmoved()}, []clientv3.Op{put}, nil)
	if err == nil && !resp.Succeeded {
		return errMoved
	}
	return err
}

// force removes what an ID has and forbids it. Its leases go as well: while one
// lives, the server goes on extending it, whatever became of the claim.
func (s *Store) force(ctx context.Context, l *link, n names, id string, theirs []*claim) error {
	t := termFor(id, forEnd, endedFor)
	if _, err := l.last(ctx, t); err != nil {
		return err
	}
	r := releasing{n: n, id: id}
	var conds []clientv3.Cmp
	then := []clientv3.Op{r.bury(t.id)}
	for _, c := range theirs {
		conds = append(conds, c.unmoved())
		then = append(then, clientv3.OpDelete(c.key))
	}
	resp, err := l.txn(ctx, conds, then, nil)
	switch {
	case err != nil:
		return movedIfEnded(err)
	case !resp.Succeeded:
		return errMoved
	}
	for _, c := range theirs {
		if err := l.revoke(ctx, c.lease); err != nil {
			return err
		}
	}
	return nil
}
