package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// passingPlace is for one who wants no place, and is either granted a slot by its turn or leaves at
// once; or dies.
const passingPlace = 15 * time.Second

// join takes the last place in the line that was seen, and returns the line with it. Where whoever
// is next can't be read, it takes none.
func (a *asking) join(ctx context.Context, before *view) (*view, error) {
	if err := a.findNext(ctx, before); err != nil {
		return nil, err
	}
	t := a.s.termOf(a.ID, forPlace, cmp.Or(a.Place, passingPlace))
	prepared := make(chan struct{})
	go func() { defer close(prepared); a.prepare(ctx) }()
	_, err := a.l.last(ctx, t)
	if <-prepared; err != nil {
		return nil, err
	}
	r := a.record()
	r.Rank = before.rev
	puts := []clientv3.Op{
		clientv3.OpPut(a.name(), encode(r), clientv3.WithLease(t.id)),
		clientv3.OpPut(a.n.ranked(r.Rank, a.ID), "", clientv3.WithLease(t.id)),
	}
	conds := append(nowhere(a.n.line, a.ID), absent(a.n.cool+nameOf(a.Mode, a.Slots, a.ID), a.n.ended+a.ID)...)
	resp, err := a.l.txn(ctx, conds, append(puts, a.looks(nil)...), nil)
	switch {
	case err != nil:
		return nil, movedIfEnded(err)
	case !resp.Succeeded:
		return nil, errMoved
	}
	v, err := a.view(resp.Header.Revision, resp.Responses[len(puts):])
	if err == nil {
		v.next = before.next
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

// leave gives up the place, where there is one, and doesn't forbid the ID.
func (a *asking) leave(ctx context.Context, mine *claim) error {
	if mine == nil {
		return nil
	}
	resp, err := a.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, a.n.deletes(mine), nil)
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
	return nil
}
