package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// join takes the last place in line, for one who has read it as of revision rank, and returns
// the line with it.
func (a *asking) join(ctx context.Context, rank int64) (*view, error) {
	t := a.s.termOf(a.ID, forPlace, a.Place)
	prepared := make(chan struct{})
	go func() { defer close(prepared); a.prepare(ctx) }()
	_, err := a.l.last(ctx, t)
	if <-prepared; err != nil {
		return nil, err
	}
	r := a.record()
	r.Rank = rank
	puts := []clientv3.Op{
		clientv3.OpPut(a.name(), encode(r), clientv3.WithLease(t.id)),
		clientv3.OpPut(a.n.ranked(rank, a.ID), "", clientv3.WithLease(t.id)),
	}
	conds := absent(a.name(), a.n.cool+nameOf(a.Mode, a.Slots, a.ID), a.n.ended+a.ID)
	resp, err := a.l.txn(ctx, conds, append(puts, a.looks(nil)...), nil)
	switch {
	case err != nil:
		return nil, movedIfEnded(err)
	case !resp.Succeeded:
		return nil, errMoved
	}
	v, err := a.view(resp.Header.Revision, resp.Responses[len(puts):])
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
	a.prepare(ctx)
	if mine.lease == t.id {
		_, err := a.l.keepAlive(ctx, t.id)
		return movedIfEnded(err)
	}
	if _, err := a.l.last(ctx, t); errors.Is(err, rpctypes.ErrNoSpace) { // then the old one must do
		_, err = a.l.keepAlive(ctx, mine.lease)
		return movedIfEnded(err)
	} else if err != nil {
		return err
	}
	moves := []clientv3.Op{
		clientv3.OpPut(mine.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(t.id)),
		clientv3.OpPut(a.n.ranked(mine.Rank, a.ID), "", clientv3.WithLease(t.id)),
	}
	resp, err := a.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, moves, nil)
	if err == nil && !resp.Succeeded {
		return errMoved
	}
	return movedIfEnded(err)
}

// prepared reports whether the lease for a hold is there and won't end soon.
func (a *asking) prepared(k known) bool {
	return k.hold == a.s.termOf(a.ID, forHold, a.TTL) && time.Since(k.prepared) < a.TTL/2
}

// prepare makes the lease for a hold to come, so that the hand-over is a single write. One
// with a MinHold has more to write, and looks first; one that is shorter than a
// place would need to be made again and again. Without it the hand-over takes longer,
// so that its failure is no reason to give up a place.
func (a *asking) prepare(ctx context.Context) {
	if a.MinHold > 0 || a.TTL < a.Place || a.prepared(a.s.memory.recall(a.ID)) {
		return
	}
	t := a.s.termOf(a.ID, forHold, a.TTL)
	if _, err := a.l.last(ctx, t); err == nil {
		a.s.memory.note(a.ID, func(k *known) { k.hold, k.prepared = t, time.Now() })
	}
}

// leave gives up the place of one whose run has succeeded, and says so.
func (a *asking) leave(ctx context.Context, v *view) error {
	if v.mine != nil {
		gone := []clientv3.Op{clientv3.OpDelete(v.mine.key), clientv3.OpDelete(a.n.ranked(v.mine.Rank, a.ID))}
		resp, err := a.l.txn(ctx, []clientv3.Cmp{v.mine.unmoved()}, gone, nil)
		if err == nil && !resp.Succeeded {
			err = errMoved
		}
		if err != nil {
			return err
		}
		if hold := a.s.memory.recall(a.ID).hold; hold.lasts() > endedFor {
			a.l.revoke(ctx, hold.id) // or it would stay for a long time; if that fails, it does
		}
		a.s.memory.forget(a.ID)
	}
	return &backends.DoneError{Key: a.Key, Entry: *v.done}
}
