package etcd

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// entry is the JSON of a run that has succeeded.
type entry struct {
	V int `json:"v"`
	backends.Entry
}

// entryOf reads such an entry, nil if there is none.
func entryOf(answer *pb.ResponseOp) (*backends.Entry, error) {
	found := kvs(answer)
	if len(found) == 0 {
		return nil, nil
	}
	var e entry
	if err := decode(found[0], &e); err != nil {
		return nil, err
	}
	return &e.Entry, nil
}

// Completed implements backends.Ledger.
func (s *Store) Completed(ctx context.Context, key, run string) (backends.Entry, error) {
	var found *backends.Entry
	read := clientv3.OpGet(s.names(key).completed(run))
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, []clientv3.Op{read}, nil)
		if err != nil {
			return err
		}
		found, err = entryOf(resp.Responses[0])
		return err
	})
	if err == nil && found == nil {
		err = backends.ErrNotFound
	}
	if err != nil {
		return backends.Entry{}, s.failed("look up a run of", key, err)
	}
	return *found, nil
}

// Complete implements backends.Ledger.
func (s *Store) Complete(ctx context.Context, lease backends.Lease) error {
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		err := errMoved
		for errors.Is(err, errMoved) {
			err = s.complete(ctx, l, lease)
		}
		return err
	})
	return s.failed("record the success of", lease.Key, err)
}

// complete records the run if the hold is there, whose token nobody else has. The lease that
// keeps the record begins before that, and lasts until its Keep has passed since.
func (s *Store) complete(ctx context.Context, l *link, lease backends.Lease) error {
	n := s.names(lease.Key)
	mine, _, err := l.holder(ctx, n, lease)
	if err != nil {
		return err
	}
	began := time.Now()
	kept, lasts := term{}, time.Duration(0)
	if lease.Keep > 0 {
		kept = termFor(lease.ID, forKeep, lease.Keep+coolSlack)
		if lasts, err = l.last(ctx, kept); err != nil {
			return err
		}
	}
	e := entry{backends.RecordVersion, backends.Entry{Run: lease.Run, Token: lease.Token, Owner: mine.Owner, At: time.Now()}}
	if lease.Keep > 0 {
		e.Forgets = e.At.Add(lease.Keep)
	}
	key := n.completed(lease.Run)
	record := clientv3.OpPut(key, encode(e), clientv3.WithLease(kept.id))
	once := clientv3.OpTxn(absent(key), []clientv3.Op{record}, nil)
	resp, err := l.txn(ctx, []clientv3.Cmp{mine.unmoved()}, []clientv3.Op{once}, nil)
	switch {
	case err != nil:
		return movedIfEnded(err)
	case !resp.Succeeded:
		return errMoved
	case kept.id != 0 && time.Since(began) > lasts-lease.Keep:
		_, err = l.keepAlive(ctx, kept.id)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it had been kept already, under another
			err = nil
		}
	}
	return err
}

// Entries implements backends.Ledger.
func (s *Store) Entries(ctx context.Context, key string) iter.Seq2[backends.Entry, error] {
	return func(yield func(backends.Entry, error) bool) {
		entries, err := s.entries(ctx, all(s.names(key).done))
		if err != nil {
			yield(backends.Entry{}, s.failed("list the runs of", key, err))
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// entries reads all that have succeeded, a page at a time, oldest first.
func (s *Store) entries(ctx context.Context, in span) (entries []backends.Entry, err error) {
	var found []*mvccpb.KeyValue
	for rest := in; ; {
		page, err := s.page(ctx, rest)
		if err != nil {
			return nil, err
		}
		found = append(found, page...)
		if len(page) < pageSize {
			break
		}
		rest.first = string(page[len(page)-1].Key) + "\x00"
	}
	slices.SortFunc(found, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	for _, kv := range found {
		var e entry
		if err := decode(kv, &e); err != nil {
			return nil, err
		}
		entries = append(entries, e.Entry)
	}
	return entries, nil
}

// Forget implements backends.Ledger.
func (s *Store) Forget(ctx context.Context, key, run string) error {
	forget := clientv3.OpDelete(s.names(key).completed(run))
	var deleted int64
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, []clientv3.Op{forget}, nil)
		if err == nil {
			deleted += resp.Responses[0].GetResponseDeleteRange().Deleted
		}
		return err
	})
	if err == nil && deleted == 0 {
		err = backends.ErrNotFound
	}
	return s.failed("forget a run of", key, err)
}
