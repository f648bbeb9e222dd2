package redis

import (
	"context"
	"time"

	"flockd/backends"
)

// Watch implements backends.Watcher. It listens on the connection that Wait had, and looks
// before it listens, and when that has ended: a ring may be old, and one may be lost, with
// its connection or with whoever was about to ring. So what was done to the hold it knows
// listenAtMost later at the latest. Where it can't listen it looks every so often.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	list := bell(s.to.prefix.bell(lease.Key, lease.ID))
	for deaf := false; ; {
		news, err := s.news(ctx, lease)
		if news || err != nil {
			return s.failed("watch", lease.Key, err)
		}
		span := listening(ctx)
		if !deaf && span > 0 {
			_, err = s.listen(ctx, s.ear(), list, span)
			deaf = err != nil && !s.mayPass(ctx, err)
		}
		if deaf || err != nil || span <= 0 {
			err = pause(ctx, backends.LookEvery(lease.TTL))
		}
		if err != nil {
			return s.failed("watch", lease.Key, err)
		}
	}
}

// news reports whether something was done to the hold that no renewal has told of.
func (s *Store) news(ctx context.Context, lease backends.Lease) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, watchScript, lease.Key, lease.ID, 0)
	return a.text(0) == "news", err
}

// pause waits for d, or returns ctx's error when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
