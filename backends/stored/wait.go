package stored

import (
	"context"
	"time"

	"flockd/backends"
)

// Who can't be notified looks at its own row every so often.
const (
	// pollMin is how often the first in line looks. The next ones look as many times more
	// seldom as they stand behind it, so that a line of n is looked at 10 ln n times a
	// second, however long. Each look tells how many are left in front, so that a line that
	// moves fast is looked at as often as a short one.
	pollMin = 100 * time.Millisecond

	// A hold that has lasted for long seldom ends the next moment: the first in line looks
	// again after a fiftieth of that time, and so begins 2 % later at most.
	pollShare = 50

	// pollMax bounds that: twice a second less for each line is nothing to a database.
	pollMax = 2 * time.Second
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
	o := foresee(held, time.Now())
	return s.listen(ctx, held.Key, string(id), func(front *int) time.Duration { return o.after(front, time.Now()) })
}

// outlook is what a waiter knows of its turn.
type outlook struct {
	ahead int       // how many wait in front
	since time.Time // when the hold that it waits for began, as far as it knows; zero: there is none
}

// foresee is the outlook by an answer that came at now.
func foresee(held *backends.HeldError, now time.Time) outlook {
	o := outlook{ahead: held.Ahead}
	if len(held.Holders) > 0 {
		o.since = now.Add(-held.AsOf.Sub(held.Holders[0].Granted))
	}
	return o
}

// after is how long not to look, from now on. front is how many wait in front now, nil
// where that isn't known: where it isn't the number of before, another one holds, for how
// long isn't known.
func (o *outlook) after(front *int, now time.Time) time.Duration {
	if front != nil && *front != o.ahead {
		o.ahead, o.since = *front, now
	}
	every := pollMin
	if !o.since.IsZero() {
		every = min(max(now.Sub(o.since)/pollShare, pollMin), pollMax)
	}
	return every * time.Duration(1+o.ahead)
}

// Watch implements backends.Watcher. It looks, also where waiters are notified: to listen takes
// a connection beside the one for renewals, and a hold may last for days.
func (s *Store) Watch(ctx context.Context, lease backends.Lease) error {
	every := backends.LookEvery(lease.TTL)
	return s.poll(ctx, lease.Key, lease.ID, func(*int) time.Duration { return every })
}

// listen returns when there is news for a claim.
func (s *Store) listen(ctx context.Context, key, id string, after func(front *int) time.Duration) error {
	listener, ok := s.server.(Listener)
	if !ok {
		return s.poll(ctx, key, id, after)
	}
	err := listener.Listen(ctx, id, func(ctx context.Context) (bool, error) {
		news, _, err := s.news(ctx, key, id)
		return news, err
	})
	if err != nil && ctx.Err() == nil { // it can't listen, or its session has ended
		return s.poll(ctx, key, id, after)
	}
	return err
}

// poll looks until there is news for a claim. The answer that it waits since has just told
// what there is, so it begins with a pause: what was done meanwhile it still sees.
func (s *Store) poll(ctx context.Context, key, id string, after func(front *int) time.Duration) error {
	for front := (*int)(nil); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(after(front)):
		}
		var news bool
		var err error
		if news, front, err = s.news(ctx, key, id); news || err != nil {
			return err
		}
	}
}

// news reports whether a claim has something to hear: its turn has come, it is gone, or
// somebody left a notice that it wasn't told yet. front is how many wait in front of a place,
// nil where that wasn't told.
func (s *Store) news(ctx context.Context, key, id string) (news bool, front *int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Poll, key, id, int64(backends.RecordVersion))
	return bool(a.News), a.Front, failed("look after", key, err)
}
