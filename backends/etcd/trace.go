package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// trace is what an ID has left, of which nothing but the ID need be known.
type trace struct {
	inLine *claim // nil: none
	cool   *claim // likewise
	ended  *tombstone
}

// trace finds what there is of id, in one request, and one more where it has a slot.
func (n names) trace(ctx context.Context, l *link, id string) (t trace, err error) {
	reads := []clientv3.Op{clientv3.OpGet(n.ended + id), clientv3.OpGet(n.held + id)}
	for _, mode := range modes {
		reads = append(reads, find(n.line, mode, id), find(n.cool, mode, id))
	}
	resp, err := l.txn(ctx, nil, reads, nil)
	if err != nil {
		return t, err
	}
	answers := resp.Responses
	if t.ended, err = tombstoneOf(answers[0]); err != nil {
		return t, err
	}
	for i := 2; i < len(answers); i += 2 {
		if err := readInto(&t.inLine, answers[i]); err != nil {
			return t, err
		}
		if err := readInto(&t.cool, answers[i+1]); err != nil {
			return t, err
		}
	}
	if t.inLine == nil || t.inLine.State != backends.Holding {
		return t, nil
	}
	if t.inLine.Mode == backends.Slots {
		if resp, err = l.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(n.holds(backends.Slots, t.inLine.Slot, id))}, nil); err != nil {
			return t, err
		}
		answers = append(answers[:1], resp.Responses...)
	}
	return t, t.inLine.tokenFrom(answers[1])
}

// readInto reads the claim of an answer, if it has one.
func readInto(c **claim, answer *pb.ResponseOp) error {
	found, err := decodeFirst(answer)
	if found != nil {
		*c = found
	}
	return err
}

// tokenFrom takes the token of a claim that holds from its twin, where that is there.
func (c *claim) tokenFrom(twin *pb.ResponseOp) error {
	held, err := decodeAll(twin, decodeHold)
	if err == nil && among(held, c.id) {
		c.token = held[0].token
	}
	return err
}

// deletes takes the claim out of the line, with what else is there because of it, but for a MinHold.
func (n names) deletes(c *claim) []clientv3.Op {
	if c.State == backends.Cooling {
		return []clientv3.Op{clientv3.OpDelete(c.key)}
	}
	beside := n.ranked(c.Rank, c.id)
	if c.State == backends.Holding {
		beside = n.holds(c.Mode, c.Slot, c.id)
	}
	return []clientv3.Op{clientv3.OpDelete(c.key), clientv3.OpDelete(beside)}
}

// tombstone is the JSON of an ID that is forbidden.
type tombstone struct {
	V      int             `json:"v"`
	Sign   string          `json:"sign,omitempty"`  // of the call that forbade it
	Notice backends.Notice `json:"notice,omitzero"` // with which it was removed, or asked to leave the line
}

// gone is the answer to what is asked for an ID that has nothing. Nil: nothing is known of it.
func (t *tombstone) gone() error {
	if t == nil || t.Notice == (backends.Notice{}) {
		return backends.ErrLost
	}
	return &backends.RemovedError{Notice: t.Notice}
}

// tombstoneOf is a tombstone, nil if there is none.
func tombstoneOf(answer *pb.ResponseOp) (*tombstone, error) {
	found := kvs(answer)
	if len(found) == 0 {
		return nil, nil
	}
	t := new(tombstone)
	return t, decode(found[0], t)
}

// bury forbids id for as long as the lease lasts.
func (n names) bury(id string, t tombstone, lease clientv3.LeaseID) clientv3.Op {
	t.V = backends.RecordVersion
	return clientv3.OpPut(n.ended+id, encode(t), clientv3.WithLease(lease))
}
