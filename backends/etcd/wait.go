package etcd

import (
	"context"
	"errors"
	"slices"

	"flockd/backends"
)

// seen is HeldError.Seen: whose place it is, what to watch, and the revision of the answer.
type seen struct {
	id   string
	what []watched
	rev  int64
}

// seen picks whom the claim of the view waits for, so that one hand-over wakes one waiter: Exclusive
// the claim in front; Shared the nearest in front that isn't Shared; Slots, if first of the
// waiters, all holders, or else the turn of the waiter in front. And it hears of what is
// said to itself, and of the success of its run.
func (a *asking) seen(v *view) seen {
	at := seen{id: a.ID, what: a.inFront(v), rev: v.rev}
	if v.mine != nil {
		at.what = append(at.what, changes(v.mine.key))
	}
	switch once := a.Once; {
	case once == nil:
	case once.ID != "":
		at.what = append(at.what, watched{span: one(a.n.completed(once.ID)), puts: true})
	default:
		at.what = append(at.what, watched{span: all(a.n.done), puts: true})
	}
	return at
}

func (a *asking) inFront(v *view) []watched {
	for _, p := range v.front {
		if a.Mode == backends.Slots && v.holds(p.id) {
			continue
		}
		return []watched{{one(p.key), a.Mode == backends.Slots && p.mode == backends.Slots, true}}
	}
	if a.Mode == backends.Slots {
		return []watched{{all(a.n.held), false, true}, {all(a.n.cool), false, true}}
	}
	cooling := all(a.n.cool)
	if a.Mode == backends.Shared {
		cooling = unshared(a.n.cool)
	}
	return []watched{{cooling, false, true}}
}

// Wait implements backends.Waiter. It returns also when a lease has ended on which what it
// waits for depends.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	at, ok := held.Seen.(seen)
	if !ok {
		return backends.Refuse("", "an answer of another store")
	}
	ear := s.listen(ctx, at)
	select {
	case <-ear.heard:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.memory.note(at.id, func(k *known) {
		if k.ear == ear {
			k.ear = nil
		}
		k.woken = k.woken || ear.err == nil
	})
	if errors.Is(ear.err, errCompacted) {
		return nil // whatever it was, the next question tells
	}
	return s.failed("wait for", held.Key, ear.err)
}

// ear is a watch that goes on while its waiter asks again, for one who is idle asks every five
// seconds.
type ear struct {
	what  []watched
	heard chan struct{} // closed when something has happened, or err
	err   error
	stop  context.CancelFunc
}

// listen is the watch for an answer: the one that is open where it is for the same.
func (s *Store) listen(ctx context.Context, at seen) *ear {
	open := s.memory.recall(at.id).ear
	if open != nil && slices.Equal(open.what, at.what) {
		return open
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &ear{what: at.what, heard: make(chan struct{}), stop: stop}
	s.memory.note(at.id, func(k *known) { k.ear.close(); k.ear = e })
	go func() {
		defer close(e.heard)
		e.err = s.watch(ctx, at.rev+1, at.what...)
		stop()
	}()
	return e
}

// close ends the watch, if there is one.
func (e *ear) close() {
	if e != nil {
		e.stop()
	}
}

// Watch returns when something was done to the hold since its holder last heard of
// it, by Acquire or Renew: its claim was deleted or left a notice, or its
// lease has ended. It is a hint: a renewal tells what it was.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	key, err := s.claimKey(ctx, lease)
	if err != nil || key == "" {
		return s.failed("watch", lease.Key, err)
	}
	from := s.memory.recall(lease.ID).heard
	err = errCompacted
	if from != 0 {
		err = s.watch(ctx, from+1, changes(key))
	}
	if errors.Is(err, errCompacted) {
		err = s.watchOn(ctx, key, from, lease)
	}
	return s.failed("watch", lease.Key, err)
}

// claimKey is the key of the claim of a hold. "" without an error: it is gone.
func (s *Store) claimKey(ctx context.Context, lease backends.Lease) (key string, err error) {
	if mine := s.memory.recall(lease.ID).claim; mine != nil {
		return mine.key, nil
	}
	err = s.call(ctx, func(ctx context.Context, l *link) error {
		mine, _, err := l.holder(ctx, s.names(lease.Key), lease)
		if err == nil {
			key = mine.key
		}
		return err
	})
	if errors.Is(err, backends.ErrLost) {
		err = nil
	}
	return key, err
}

// watchOn begins with the claim as it is, because how it became that isn't known.
func (s *Store) watchOn(ctx context.Context, key string, from int64, lease backends.Lease) error {
	var mine *claim
	var rev int64
	err := s.call(ctx, func(ctx context.Context, l *link) (err error) {
		mine, rev, err = l.holder(ctx, s.names(lease.Key), lease)
		return err
	})
	switch {
	case errors.Is(err, backends.ErrLost):
		return nil
	case err != nil:
		return err
	case from != 0 && mine.mod > from, from == 0 && mine.Notice != (backends.Notice{}):
		return nil
	}
	return s.watch(ctx, rev+1, changes(key))
}
