package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// view is a line as one acquisition sees it, as of one revision. It is of the same size
// however many wait.
type view struct {
	rev   int64
	mine  *claim          // its claim, nil if it has none
	ended *tombstone      // nil: its ID isn't forbidden
	done  *backends.Entry // its run has succeeded; nil: not, or it is for none
	clear bool            // nothing is in its way, and all of the below is unknown

	cool    []*claim        // whose MinHold has not passed, holders included
	held    []*claim        // holders
	next    *backends.Claim // the first in line where nobody holds, if it was asked for
	unlike  int             // how many are in line where those of front are looked for, behind the claim too
	front   []place         // those in front that decide, nearest first; see asking.nearest
	waiters int             // places in line, its own included
	ahead   int             // those of them in front
}

// looks are the operations whose answers a view is made of. Before is where its claim is
// known to be; nil: it is last in line, or that isn't known.
func (a *asking) looks(before *claim) []clientv3.Op {
	byCreate := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	waiters := all(a.n.order)
	ahead := waiters
	if before != nil {
		ahead.end = a.n.ranked(before.Rank, a.ID)
	}
	ops := a.glance()
	for _, mode := range modes {
		if mode != a.Mode {
			ops = append(ops, find(a.n.line, mode, a.ID))
		}
	}
	return append(ops,
		all(a.n.cool).get(byCreate),
		all(a.n.held).get(byCreate),
		a.nearest(before),
		waiters.get(clientv3.WithCountOnly()),
		ahead.get(clientv3.WithCountOnly()),
	)
}

// glance is the beginning of looks, which is enough where the line is clear.
func (a *asking) glance() []clientv3.Op {
	ops := []clientv3.Op{find(a.n.line, a.Mode, a.ID), clientv3.OpGet(a.n.ended + a.ID)}
	if a.Once != nil {
		ops = append(ops, clientv3.OpGet(a.n.completed(a.Once.RunAt(time.Now()))))
	}
	return ops
}

// nearest asks for those in front that decide whether the claim fits, and whom it waits
// for: Exclusive for the nearest; Shared for the nearest that isn't Shared; Slots for as many as
// there are slots, which tells whether there are fewer, and for one who waits behind
// as many holders.
func (a *asking) nearest(before *claim) clientv3.Op {
	in, limit := all(a.n.line), int64(1)
	switch a.Mode {
	case backends.Shared:
		in = unshared(a.n.line)
	case backends.Slots:
		limit = int64(a.Slots) + 1
	}
	options := []clientv3.OpOption{clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithKeysOnly()}
	if before != nil {
		options = append(options, clientv3.WithMaxCreateRev(before.create-1))
	} else {
		limit++ // its own may be there
	}
	return in.get(append(options, clientv3.WithLimit(limit))...)
}

// look reads the line in one linearizable request; in one more where its claim isn't what
// this client knows of it.
func (a *asking) look(ctx context.Context) (*view, error) {
	before := a.s.memory.recall(a.ID).claim
	conds, then, otherwise := a.nobody(), a.glance(), a.looks(before)
	if conds == nil || before != nil {
		conds, then, otherwise = nil, otherwise, nil
	}
	resp, err := a.l.txn(ctx, conds, then, otherwise)
	if err != nil {
		return nil, err
	}
	v, err := a.view(resp.Header.Revision, resp.Responses)
	if err != nil || v.clear && !v.mine.asked() || v.mine.samePlace(before) {
		return v, err
	}
	if a.s.memory.note(a.ID, func(k *known) { k.claim = v.mine }); v.mine != nil {
		a.adopt(v.mine)
	}
	return a.look(ctx)
}

// view reads the answers to looks, or to glance.
func (a *asking) view(rev int64, answers []*pb.ResponseOp) (*view, error) {
	v := &view{rev: rev}
	var err error
	if v.mine, err = decodeFirst(answers[0]); err != nil {
		return nil, err
	}
	if v.ended, err = tombstoneOf(answers[1]); err != nil {
		return nil, err
	}
	if a.Once != nil {
		if v.done, err = entryOf(answers[2]); err != nil {
			return nil, err
		}
	}
	if answers = answers[len(a.glance()):]; len(answers) == 0 {
		v.clear = true
		return v, nil
	}
	for ; len(answers) > 5; answers = answers[1:] { // of other modes
		if err := readInto(&v.mine, answers[0]); err != nil {
			return nil, err
		}
	}
	if v.cool, err = decodeAll(answers[0], decodeClaim); err != nil {
		return nil, err
	}
	if v.held, err = decodeAll(answers[1], decodeHold); err != nil {
		return nil, err
	}
	if err := v.readFront(answers[2], a.ID); err != nil {
		return nil, err
	}
	v.waiters, v.ahead = int(answers[3].GetResponseRange().Count), int(answers[4].GetResponseRange().Count)
	return v, nil
}

// readFront reads the answer to nearest, in which the claim's own may be.
func (v *view) readFront(answer *pb.ResponseOp, id string) error {
	v.unlike = int(answer.GetResponseRange().Count)
	for _, kv := range kvs(answer) {
		p, err := placeOf(string(kv.Key))
		if err != nil {
			return err
		}
		if p.id != id {
			v.front = append(v.front, p)
		}
	}
	return nil
}

func kvs(answer *pb.ResponseOp) []*mvccpb.KeyValue { return answer.GetResponseRange().Kvs }

func decodeAll(answer *pb.ResponseOp, decode func(*mvccpb.KeyValue) (*claim, error)) (claims []*claim, err error) {
	for _, kv := range kvs(answer) {
		c, err := decode(kv)
		if err != nil {
			return nil, err
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// decodeFirst is the first claim of the answer, nil if there is none.
func decodeFirst(answer *pb.ResponseOp) (*claim, error) {
	claims, err := decodeAll(answer, decodeClaim)
	if len(claims) == 0 {
		return nil, err
	}
	return claims[0], nil
}

// fits reports whether the claim may hold now, or one that would join the line. Whose
// MinHold has not passed is in front of it, in line or not.
func (v *view) fits(mode backends.Mode, n int) bool {
	if v.clear {
		return true
	}
	var front []backends.Claim
	inLine := map[string]bool{}
	for _, p := range v.front {
		front = append(front, backends.Claim{Mode: p.mode, Slots: p.slots})
		inLine[p.id] = true
	}
	for _, c := range v.cool {
		if !inLine[c.id] {
			front = append(front, c.public())
		}
	}
	return backends.Fits(backends.Claim{Mode: mode, Slots: n}, front) && (mode != backends.Slots || v.freeSlot(0) < n)
}

// cooling are the claims whose holder has ended and whose MinHold has not.
func (v *view) cooling() []*claim {
	return slices.DeleteFunc(slices.Clone(v.cool), func(c *claim) bool { return v.holds(c.id) })
}

func (v *view) holds(id string) bool { return among(v.held, id) }

// cools reports whether the MinHold of id has not passed.
func (v *view) cools(id string) bool { return among(v.cool, id) }

func among(claims []*claim, id string) bool {
	return slices.ContainsFunc(claims, func(c *claim) bool { return c.id == id })
}

// freeSlot is the lowest that nobody holds and that cools for nobody, but for so many that are left
// to others.
func (v *view) freeSlot(left int) (slot int) {
	taken := map[int]bool{}
	for _, c := range slices.Concat(v.held, v.cool) {
		taken[c.Slot] = true
	}
	for ; taken[slot] || left > 0; slot++ {
		if !taken[slot] {
			left--
		}
	}
	return slot
}

// waiting are how many wait in front of one for a slot.
func (v *view) waiting() (n int) {
	for _, p := range v.front {
		if !v.holds(p.id) {
			n++
		}
	}
	return n
}

// held says who is in the way of the claim, or why asking for that failed.
func (a *asking) held(ctx context.Context, v *view) error {
	a.s.memory.note(a.ID, func(k *known) { k.last = v.unlike == 1 })
	held := &backends.HeldError{Key: a.Key, AsOf: time.Now(), Waiters: v.waiters, Ahead: v.ahead, Seen: a.seen(v)}
	for _, c := range append(v.cooling(), v.held...) {
		held.Holders = append(held.Holders, c.public())
	}
	if v.mine != nil {
		held.Waiters--
		held.Notice = v.mine.Notice
		held.Ahead = min(held.Ahead, held.Waiters)
	}
	if err := a.findNext(ctx, v); err != nil {
		return err
	}
	switch {
	case len(held.Holders) > 0 || v.next == nil:
	case v.next.State == backends.Holding: // its hold's twin was deleted by hand
		held.Holders = append(held.Holders, *v.next)
	default:
		held.Next = v.next
	}
	return held
}

// findNext finds the first in line, as of the view, where nobody holds.
func (a *asking) findNext(ctx context.Context, v *view) error {
	if len(v.held)+len(v.cool) > 0 || v.next != nil {
		return nil
	}
	byCreate := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	read := all(a.n.line).get(byCreate, clientv3.WithLimit(1), clientv3.WithRev(v.rev))
	resp, err := a.l.txn(ctx, nil, []clientv3.Op{read}, nil)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return errMoved
	case err != nil:
		return err
	}
	first, err := decodeFirst(resp.Responses[0])
	if first != nil {
		next := first.public()
		v.next = &next
	}
	return err
}
