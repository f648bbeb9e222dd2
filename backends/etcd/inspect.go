package etcd

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// Inspect implements backends.Backend, in one request.
func (s *Store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	status := backends.Status{Key: key}
	n := s.names(key)
	byCreate := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	reads := []clientv3.Op{
		all(n.line).get(byCreate), all(n.cool).get(byCreate), all(n.held).get(),
		clientv3.OpGet(n.last), clientv3.OpGet(n.success),
	}
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, reads, nil)
		if err != nil {
			return err
		}
		status.AsOf = time.Now()
		if status.Line, err = lineOf(resp.Responses[0], resp.Responses[1], resp.Responses[2]); err != nil {
			return err
		}
		if status.Last, err = runOf(resp.Responses[3]); err != nil {
			return err
		}
		status.LastSuccess, err = runOf(resp.Responses[4])
		return err
	})
	return status, s.failed("inspect", key, err)
}

// lineOf is the line: those whose holder has ended and whose MinHold has not,
// then the others.
func lineOf(line, cool, held *pb.ResponseOp) (claims []backends.Claim, err error) {
	inLine, err := decodeAll(line, decodeClaim)
	if err != nil {
		return nil, err
	}
	cooling, err := decodeAll(cool, decodeClaim)
	if err != nil {
		return nil, err
	}
	holds, err := decodeAll(held, decodeHold)
	if err != nil {
		return nil, err
	}
	tokens, isIn := map[string]backends.Token{}, map[string]bool{}
	for _, c := range holds {
		tokens[c.id] = c.token
	}
	for _, c := range inLine {
		c.token, isIn[c.id] = tokens[c.id], true
	}
	cooling = slices.DeleteFunc(cooling, func(c *claim) bool { return isIn[c.id] })
	for _, c := range append(cooling, inLine...) {
		claims = append(claims, c.public())
	}
	return claims, nil
}

// runOf is a last run, nil if there is none.
func runOf(answer *pb.ResponseOp) (*backends.Run, error) {
	found := kvs(answer)
	if len(found) == 0 {
		return nil, nil
	}
	var r run
	if err := decode(found[0], &r); err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// List implements backends.Backend. Each key's status is as of an instant of its own.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	names := func() ([]string, error) {
		keys, err := s.keys(ctx, prefix)
		return keys, s.failed("list", prefix, err)
	}
	return backends.Each(names, func(key string) (backends.Status, error) { return s.Inspect(ctx, key) })
}

// keys are flockd's keys that begin with prefix, sorted.
func (s *Store) keys(ctx context.Context, prefix string) ([]string, error) {
	found := map[string]bool{}
	for _, kind := range []string{"line", "cool", "runs"} {
		if err := s.folders(ctx, s.prefix+"/"+kind+"/", prefix, found); err != nil {
			return nil, err
		}
	}
	var keys []string
	for key := range found {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys, nil
}

// pageSize is how many etcd keys one request lists: some 100 KB without, and 500 KB with their values.
const pageSize = 1000

// page reads the first keys of the span, in order.
func (s *Store) page(ctx context.Context, in span, options ...clientv3.OpOption) (found []*mvccpb.KeyValue, err error) {
	list := in.get(append(options, clientv3.WithLimit(pageSize))...)
	err = s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, []clientv3.Op{list}, nil)
		if err == nil {
			found = kvs(resp.Responses[0])
		}
		return err
	})
	return found, err
}

// folders adds the flockd keys with a folder in root. A key's escaped form begins with
// that of what the key begins with. Folders that we don't name so aren't ours.
func (s *Store) folders(ctx context.Context, root, prefix string, found map[string]bool) error {
	for rest := all(root + backends.Escape(prefix)); ; {
		page, err := s.page(ctx, rest, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range page {
			escaped, _, _ := strings.Cut(string(kv.Key)[len(root):], "/")
			key, err := backends.Unescape(escaped)
			if err == nil && backends.Escape(key) == escaped && strings.HasPrefix(key, prefix) {
				found[key] = true
			}
		}
		if len(page) < pageSize {
			return nil
		}
		rest.first = string(page[len(page)-1].Key) + "\x00"
	}
}
