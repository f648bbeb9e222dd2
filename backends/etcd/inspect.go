package etcd

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// Inspect implements backends.Backend, in one request.
func (s *Store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	status := backends.Status{Key: key}
	n := s.names(key)
	byCreate := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)
	reads := []clientv3.Op{
		clientv3.OpGet(n.line, clientv3.WithPrefix(), byCreate), clientv3.OpGet(n.cool, clientv3.WithPrefix(), byCreate),
		clientv3.OpGet(n.last), clientv3.OpGet(n.success),
	}
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, reads, nil)
		if err != nil {
			return err
		}
		status.AsOf = time.Now()
		if status.Line, err = lineOf(resp.Responses[0], resp.Responses[1]); err != nil {
			return err
		}
		if status.Last, err = runOf(resp.Responses[2]); err != nil {
			return err
		}
		status.LastSuccess, err = runOf(resp.Responses[3])
		return err
	})
	return status, s.failed("inspect", key, err)
}

// lineOf is the line: those whose holder has ended and whose MinHold has not,
// then the others.
func lineOf(line, cool *pb.ResponseOp) (claims []backends.Claim, err error) {
	inLine, err := decodeAll(line)
	if err != nil {
		return nil, err
	}
	cooling, err := decodeAll(cool)
	if err != nil {
		return nil, err
	}
	cooling = slices.DeleteFunc(cooling, func(c *claim) bool {
		return slices.ContainsFunc(inLine, func(other *claim) bool { return other.id == c.id })
	})
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

// page is how many etcd keys one request lists: some 100 KB.
const page = 1000

// folders adds the flockd keys with a folder in root. A key's escaped form begins with
// that of what the key begins with. Folders that we don't name so aren't ours.
func (s *Store) folders(ctx context.Context, root, prefix string, found map[string]bool) error {
	first := root + backends.Escape(prefix)
	end := clientv3.GetPrefixRangeEnd(first)
	for {
		list := clientv3.OpGet(first, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithKeysOnly())
		var names []string
		err := s.call(ctx, func(ctx context.Context, l *link) error {
			names = nil
			resp, err := l.txn(ctx, nil, []clientv3.Op{list}, nil)
			if err != nil {
				return err
			}
			for _, kv := range kvs(resp.Responses[0]) {
				names = append(names, string(kv.Key))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, name := range names {
			escaped, _, _ := strings.Cut(name[len(root):], "/")
			key, err := backends.Unescape(escaped)
			if err == nil && backends.Escape(key) == escaped && strings.HasPrefix(key, prefix) {
				found[key] = true
			}
		}
		if len(names) < page {
			return nil
		}
		first = names[len(names)-1] + "\x00"
	}
}
