package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// Ask implements backends.Backend.
func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	if !isID(id) {
		return s.failed("ask", key, backends.ErrNotFound)
	}
	t := telling{s: s, n: s.names(key), id: id, notice: notice, sign: backends.NewID()}
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		t.l = l
		err := errMoved
		for errors.Is(err, errMoved) {
			err = t.run(ctx)
		}
		return err
	})
	if t.done {
		return nil // whatever became of the leases
	}
	return s.failed("ask", key, err)
}

// telling is one Ask.
type telling struct {
	s      *Store
	l      *link
	n      names
	id     string
	notice backends.Notice
	sign   string // in the tombstone: tells that an earlier try of the same call was applied

	leases []clientv3.LeaseID // of what was removed, or was to be
	done   bool               // it is told, or removed
}

// run tells or removes what the ID has: its claim, its MinHold, or both.
func (t *telling) run(ctx context.Context) error {
	found, err := t.n.trace(ctx, t.l, t.id)
	if err != nil {
		return err
	}
	if e := found.ended; e != nil && (e.Sign == t.sign || e.Notice == t.notice) {
		t.done = true
	}
	if t.done {
		return t.revoke(ctx)
	}
	var theirs []*claim
	for _, c := range []*claim{found.inLine, found.cool} {
		if c != nil {
			theirs = append(theirs, c)
		}
	}
	switch {
	case len(theirs) == 0, t.notice.Kind == backends.Supersede && theirs[0].State != backends.Waiting:
		return backends.ErrNotFound
	case t.notice.Force:
		return t.force(ctx, theirs)
	}
	return t.notify(ctx, theirs[0])
}

// notify writes the notice into the claim. One that waits it forbids as well, so that its place,
// once it has ended, isn't taken anew.
func (t *telling) notify(ctx context.Context, theirs *claim) error {
	r := theirs.record
	r.Notice = t.notice
	puts := []clientv3.Op{clientv3.OpPut(theirs.key, encode(r), clientv3.WithIgnoreLease())}
	switch {
	case theirs.State == backends.Waiting:
		bury, err := t.bury(ctx)
		if err != nil {
			return err
		}
		puts = append(puts, bury)
	case theirs.State == backends.Holding && theirs.token != 0:
		puts = append(puts, t.n.copyHold(theirs, r))
	}
	resp, err := t.l.txn(ctx, []clientv3.Cmp{theirs.unmoved()}, puts, nil)
	if err == nil && !resp.Succeeded {
		return errMoved
	}
	return movedIfEnded(err)
}

// bury forbids the ID and tells why, for as long as whoever asks for it is told.
func (t *telling) bury(ctx context.Context) (clientv3.Op, error) {
	ended := termFor(t.id, forEnd, backends.RemovedFor)
	_, err := t.l.last(ctx, ended)
	return t.n.bury(t.id, tombstone{Sign: t.sign, Notice: t.notice}, ended.id), err
}

// force removes what the ID has and forbids it.
func (t *telling) force(ctx context.Context, theirs []*claim) error {
	bury, err := t.bury(ctx)
	if err != nil {
		return err
	}
	kept := runsTerm(t.s.prefix, time.Now())
	var conds []clientv3.Cmp
	then := []clientv3.Op{bury}
	t.leases = nil
	for _, c := range theirs {
		conds = append(conds, c.unmoved())
		then = append(then, t.n.deletes(c)...)
		then = append(then, t.n.runs(c, kept, backends.Outcome{Class: backends.Broken, Notice: t.notice})...)
		t.leases = append(t.leases, c.lease)
	}
	resp, err := t.l.txn(ctx, conds, then, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // the runs', or the tombstone's, which the next run tells
		if _, err := t.l.last(ctx, kept); err != nil {
			return err
		}
		return errMoved
	case err != nil:
		return err
	case !resp.Succeeded:
		return errMoved
	}
	t.done = true
	return t.revoke(ctx)
}

// revoke ends the leases of what was removed. So they don't stay for a TTL with nothing
// under them, and whoever only keeps such a lease alive, as other tools do, learns that
// the hold is gone: the server extends it whatever became of the claim.
func (t *telling) revoke(ctx context.Context) error {
	for _, lease := range t.leases {
		if err := t.l.revoke(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}
