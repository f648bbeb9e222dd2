package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// join takes the last place in line, and returns the line with it.
func (a *asking) join(ctx context.Context) (*view, error) {
	t := a.s.termOf(a.ID, forPlace, a.Place)
	prepared := make(chan struct{})
	go func() { defer close(prepared); a.prepare(ctx) }()
	_, err := a.l.last(ctx, t)
	if <-prepared; err != nil {
		return nil, err
	}
	put := clientv3.OpPut(a.n.line+a.ID, encode(a.record()), clientv3.WithLease(t.id))
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
	move := clientv3.OpPut(mine.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(t.id))
	resp, err := a.l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, []clientv3.Op{move}, nil)
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
