package backendtest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"flockd/backends"
)

// watchFaults are those of a store that says at once what a holder would hear late.
var watchFaults = map[string]fault{
	"misses a notice that comes while it watches": {
		caught: "WatchReturnsOnANotice",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			if s.news(ctx, lease) {
				return nil
			}
			return s.poll(ctx, func() bool { return s.claim(ctx, lease) == nil })
		},
	},
	"misses a removal while it watches": {
		caught: "WatchReturnsOnRemoval",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			if s.news(ctx, lease) {
				return nil
			}
			return s.poll(ctx, func() bool { return s.claim(ctx, lease) != nil && s.news(ctx, lease) })
		},
	},
	"misses what came before Watch": {
		caught: "WatchMissesNothing",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			if s.news(ctx, lease) {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.Store.Watch(ctx, lease)
		},
	},
	"tells again what a renewal has told": {
		caught: "WatchIgnoresWhatARenewalTold",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			if c := s.claim(ctx, lease); c != nil && c.Notice != (backends.Notice{}) {
				return nil
			}
			return s.Store.Watch(ctx, lease)
		},
	},
	"takes a renewal for news": {
		caught: "WatchSleepsThroughRenewals",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			before := s.claim(ctx, lease)
			return s.poll(ctx, func() bool {
				now := s.claim(ctx, lease)
				return s.news(ctx, lease) || before != nil && now.Renewed != before.Renewed
			})
		},
	},
	"takes the end of another for news": {
		caught: "WatchIgnoresOtherHolders",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			before := len(s.line(ctx, lease.Key))
			return s.poll(ctx, func() bool { return s.news(ctx, lease) || len(s.line(ctx, lease.Key)) < before })
		},
	},
	"tells of news when the time to watch is over": {
		caught: "WatchEndsWithItsContext",
		watch: func(s *store, ctx context.Context, lease backends.Lease) error {
			err := s.Store.Watch(ctx, lease)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		},
	},
}

// news reports whether a sound Watch would return at once.
func (s *store) news(ctx context.Context, lease backends.Lease) bool {
	now, cancel := context.WithTimeout(ctx, 1)
	defer cancel()
	return s.Store.Watch(now, lease) == nil
}

// claim is that of the lease, nil if it is gone.
func (s *store) claim(ctx context.Context, lease backends.Lease) *backends.Claim {
	line := s.line(ctx, lease.Key)
	i := slices.IndexFunc(line, func(c backends.Claim) bool { return c.ID == lease.ID })
	if i < 0 {
		return nil
	}
	return &line[i]
}

// waitOr returns too when something has happened that a sound Wait would sleep through.
func (s *store) waitOr(ctx context.Context, held *backends.HeldError, happened func() bool) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		s.poll(either, happened)
	}()
	err := s.Store.Wait(either, held)
	if err != nil {
		return ctx.Err() // nil: it was the other
	}
	return nil
}

// poll looks every second until something has happened.
func (s *store) poll(ctx context.Context, happened func() bool) error {
	for !happened() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}
