package etcd

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// view is a line as one acquisition sees it, as of one revision.
type view struct {
	key   string
	rev   int64
	mine  *claim   // its claim, nil if it has none
	ended bool     // it was released
	first *claim   // the first in line, nil if there is none
	line  []string // IDs, first in line first
	cool  []*claim // whose MinHold has not passed, holders included
}

// looks are the operations whose answers a view is made of. Of the claims in
// line only the keys are asked for, but for the first one's.
func (n names) looks(id string) []clientv3.Op {
	byCreate := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	return []clientv3.Op{
		clientv3.OpGet(n.line + id),
		clientv3.OpGet(n.ended+id, clientv3.WithCountOnly()),
		clientv3.OpGet(n.cool, clientv3.WithPrefix(), byCreate),
		clientv3.OpGet(n.line, clientv3.WithPrefix(), byCreate, clientv3.WithLimit(1)),
		clientv3.OpGet(n.line, clientv3.WithPrefix(), byCreate, clientv3.WithKeysOnly()),
	}
}

// look reads the line of key in one linearizable request.
func (s *Store) look(ctx context.Context, l *link, key, id string) (*view, error) {
	n := s.names(key)
	resp, err := l.txn(ctx, nil, n.looks(id), nil)
	if err != nil {
		return nil, err
	}
	return n.view(key, resp.Header.Revision, resp.Responses)
}

// view reads the answers to looks.
func (n names) view(key string, rev int64, answers []*pb.ResponseOp) (*view, error) {
	v := &view{key: key, rev: rev, ended: answers[1].GetResponseRange().Count > 0}
	var err error
	if v.mine, err = decodeFirst(answers[0]); err != nil {
		return nil, err
	}
	if v.first, err = decodeFirst(answers[3]); err != nil {
		return nil, err
	}
	if v.cool, err = decodeAll(answers[2]); err != nil {
		return nil, err
	}
	for _, kv := range kvs(answers[4]) {
		id := string(kv.Key[len(n.line):])
		if !isID(id) {
			return nil, foreign(string(kv.Key))
		}
		v.line = append(v.line, id)
	}
	return v, nil
}

func kvs(answer *pb.ResponseOp) []*mvccpb.KeyValue { return answer.GetResponseRange().Kvs }

func decodeAll(answer *pb.ResponseOp) (claims []*claim, err error) {
	for _, kv := range kvs(answer) {
		c, err := decodeClaim(kv)
		if err != nil {
			return nil, err
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// decodeFirst is the first of decodeAll, nil if there is none.
func decodeFirst(answer *pb.ResponseOp) (*claim, error) {
	claims, err := decodeAll(answer)
	if len(claims) == 0 {
		return nil, err
	}
	return claims[0], nil
}

// free reports whether nobody is in the way of who would join the line now.
func (v *view) free() bool { return len(v.line) == 0 && len(v.cool) == 0 }

// place is how many are in front of id in line; all of them if it isn't there.
func (v *view) place(id string) int {
	if i := slices.Index(v.line, id); i >= 0 {
		return i
	}
	return len(v.line)
}

// cooling are the claims whose holder has ended and whose MinHold has not. They
// stand in front of everybody who waits: what a claim of an older place became.
func (v *view) cooling() (claims []*claim) {
	for _, c := range v.cool {
		if v.place(c.id) == len(v.line) {
			claims = append(claims, c)
		}
	}
	return claims
}

// front is the etcd key of the claim just in front of id, "" if there is none.
func (v *view) front(n names, id string) string {
	if i := v.place(id); i > 0 {
		return n.line + v.line[i-1]
	}
	if cooling := v.cooling(); len(cooling) > 0 {
		return n.cool + cooling[len(cooling)-1].id
	}
	return ""
}

// held says who is in the way of id.
func (v *view) held(n names, id string) *backends.HeldError {
	held := &backends.HeldError{Key: v.key, AsOf: time.Now(), Seen: seen{id, v.front(n, id), v.rev}}
	for _, c := range v.cooling() {
		held.Holders = append(held.Holders, c.public())
	}
	waiting := len(v.line)
	held.Ahead = v.place(id)
	if v.first != nil && v.first.State == backends.Holding {
		held.Holders = append(held.Holders, v.first.public())
		waiting--
		held.Ahead--
	}
	held.Waiters = waiting
	if v.mine != nil {
		held.Waiters--
	}
	if len(held.Holders) == 0 && v.first != nil {
		next := v.first.public()
		held.Next = &next
	}
	return held
}

// cools reports whether the MinHold of id has not passed.
func (v *view) cools(id string) bool {
	return slices.ContainsFunc(v.cool, func(c *claim) bool { return c.id == id })
}
