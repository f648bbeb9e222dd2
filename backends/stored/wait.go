package stored

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

// Who can't be notified looks at its own row every so often.
const (
	// pollMin is how often the first in line looks. The next ones look as many times more
	// seldom as they stand behind it, so that a line of n is looked at 10 ln n times a
	// second, however long.
	pollMin = 100 * time.Millisecond

	// A hold that has lasted for long seldom ends the next moment: the first in line looks
	// again after a fiftieth of that time, and so begins 2 % later at most.
	pollShare = 50

	// pollMax bounds that: twice a second less for each line is nothing to a database.
	pollMax = 2 * time.Second

	// A hold is looked at four times between two renewals, and every 5 s at least.
	watchShare = 12 // of the TTL; a renewal comes after a third of it
	watchMax   = 5 * time.Second
)

// place is HeldError.Seen: the ID that stands in line.
type place string

// Wait implements backends.Waiter.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	id, ok := held.Seen.(place)
	if !ok {
		<-ctx.Done()
		return ctx.Err()
	}
	began := time.Now()
	return s.listen(ctx, held.Key, string(id), func() time.Duration { return pollAfter(held, time.Since(began)) })
}

// pollAfter is how long not to look, when waited has passed since the answer.
func pollAfter(held *backends.HeldError, waited time.Duration) time.Duration {
	every := pollMin
	if len(held.Holders) > 0 {
		lasts := held.AsOf.Sub(held.Holders[0].Granted) + waited
		every = min(max(lasts/pollShare, pollMin), pollMax)
	}
	return every * time.Duration(1+held.Ahead)
}

// Watch implements backends.Watcher.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	every := min(lease.TTL/watchShare, watchMax)
	return s.poll(ctx, lease.Key, lease.ID, func() time.Duration { return every })
}

// listen returns when there is news for a claim.
func (s *Store) listen(ctx context.Context, key, id string, after func() time.Duration) error {
	listener, ok := s.server.(Listener)
	if !ok {
		return s.poll(ctx, key, id, after)
	}
	err := listener.Listen(ctx, id, func(ctx context.Context) (bool, error) { return s.news(ctx, key, id) })
	if errors.Is(err, errors.ErrUnsupported) {
		return s.poll(ctx, key, id, after)
	}
	return err
}

// poll looks until there is news for a claim.
func (s *Store) poll(ctx context.Context, key, id string, after func() time.Duration) error {
	for {
		if news, err := s.news(ctx, key, id); news || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(after()):
		}
	}
}

// news reports whether a claim has something to hear: its turn has come, it is gone, or
// somebody left a notice that it wasn't told yet.
func (s *Store) news(ctx context.Context, key, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Poll, key, id, int64(backends.RecordVersion))
	return bool(a.News), failed("look after", key, err)
}
