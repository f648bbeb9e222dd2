package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// seen is HeldError.Seen: whose place it is, the etcd key of the claim in front, and the
// revision of the answer.
type seen struct {
	id, front string
	rev       int64
}

// Wait implements backends.Waiter. It returns when the claim in front has left the line, or its
// lease has ended.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	at, ok := held.Seen.(seen)
	if !ok || at.front == "" {
		return backends.Refuse("", "an answer of another store")
	}
	err := s.watch(ctx, at.front, at.rev+1, true)
	if errors.Is(err, errCompacted) {
		return nil // whatever it was, the next question tells
	}
	if err == nil {
		s.memory.note(at.id, func(k *known) { k.woken = true })
	}
	return s.failed("wait for", held.Key, err)
}

// Watch returns when something was done to the hold since its holder last heard of
// it, by Acquire or Renew: its claim was deleted or left a notice, or its
// lease has ended. It is a hint: a renewal tells what it was.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	key := s.names(lease.Key).line + lease.ID
	from := s.memory.recall(lease.ID).heard
	err := errCompacted
	if from != 0 {
		err = s.watch(ctx, key, from+1, false)
	}
	if errors.Is(err, errCompacted) {
		err = s.watchOn(ctx, key, from, lease.Token)
	}
	return s.failed("watch", lease.Key, err)
}

// watchOn begins with the claim as it is, because how it became that isn't known.
func (s *Store) watchOn(ctx context.Context, key string, from int64, token backends.Token) error {
	var mine *claim
	var rev int64
	err := s.call(ctx, func(ctx context.Context, l *link) error {
		resp, err := l.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(key)}, nil)
		if err != nil {
			return err
		}
		rev = resp.Header.Revision
		mine, err = decodeFirst(resp.Responses[0])
		return err
	})
	switch {
	case err != nil, mine == nil, mine.token() != token:
		return err
	case from != 0 && mine.mod > from, from == 0 && mine.Notice != (backends.Notice{}):
		return nil
	}
	return s.watch(ctx, key, rev+1, false)
}

// watch returns when the etcd key has changed at revision from or later. A token that has
// expired is renewed.
func (s *Store) watch(ctx context.Context, key string, from int64, deletions bool) error {
	err := s.watchOnce(ctx, key, from, deletions)
	if tokenExpired(err) && s.cluster.user != "" {
		s.cluster.forget()
		err = s.watchOnce(ctx, key, from, deletions)
	}
	return err
}

// watchOnce is watch on one connection. Only connecting is bounded by ?timeout=.
func (s *Store) watchOnce(ctx context.Context, key string, from int64, deletions bool) error {
	connecting, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	l, err := s.cluster.connected(connecting)
	if err == nil {
		err = s.cluster.authenticate(connecting, l)
	}
	if err != nil {
		return err
	}
	err = l.watch(ctx, key, from, deletions)
	if err == nil || errors.Is(err, errCompacted) || ctx.Err() != nil {
		return err
	}
	if isUnavailable(err) {
		s.cluster.drop(l)
	}
	return named(l, err)
}
