package backendtest_test

import (
	"context"
	"time"

	"flockd/backends"
)

// flightFaults are those of a store whose waiters don't hear of a success as they should.
var flightFaults = map[string]fault{
	"tells the first in line of no success": {
		caught: "SuccessWakesTheFirstInLine",
		wait: deafIf(func(s *store, held *backends.HeldError) bool {
			return held.Ahead == 0 && s.asked(held).Once.ID == "v42" && !s.knows(held.Holders[0].ID).cools
		}),
	},
	"tells the first in line alone of a success": {
		caught: "SuccessWakesThoseBehindOthers",
		wait:   deafIf(func(s *store, held *backends.HeldError) bool { return held.Ahead > 1 }),
	},
	"tells nobody who asks by period of a success": {
		caught: "SuccessWakesWhoAsksByPeriod",
		wait:   deafIf(func(s *store, held *backends.HeldError) bool { return s.asked(held).Once.ID == "" }),
	},
	"tells nobody of a success before its MinHold has passed": {
		caught: "SuccessWakesThoughTheKeyCools",
		wait:   deafIf(func(s *store, held *backends.HeldError) bool { return s.knows(held.Holders[0].ID).cools }),
	},
	"misses a success that came before Wait": {
		caught: "SuccessBeforeWaitCounts",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			if s.succeeded(ctx, held) {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.Store.Wait(ctx, held)
		},
	},
	"wakes everybody by a success": {
		caught: "SuccessWakesNobodyElse",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			return s.waitOr(ctx, held, func() bool { return s.entries(ctx, held.Key) > 0 })
		},
	},
}

// deafIf is a Wait that doesn't return for the success of the run that it waits for, if so.
func deafIf(deaf func(s *store, held *backends.HeldError) bool) func(*store, context.Context, *backends.HeldError) error {
	return func(s *store, ctx context.Context, held *backends.HeldError) error {
		before := s.succeeded(ctx, held)
		err := s.Store.Wait(ctx, held)
		if !before && s.succeeded(ctx, held) && deaf(s, held) {
			<-ctx.Done()
		}
		return err
	}
}

// succeeded reports whether the run that held was the answer for has been completed.
func (s *store) succeeded(ctx context.Context, held *backends.HeldError) bool {
	once := s.asked(held).Once
	if once == nil {
		return false
	}
	_, err := s.Store.Completed(ctx, held.Key, once.RunAt(time.Now()))
	return err == nil
}

// entries is how many runs of key have been completed.
func (s *store) entries(ctx context.Context, key string) (n int) {
	for range s.Store.Entries(ctx, key) {
		n++
	}
	return n
}
