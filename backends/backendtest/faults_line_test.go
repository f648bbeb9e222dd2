package backendtest_test

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

// lineFaults break the order of the line and its hints.
var lineFaults = map[string]fault{
	"repairs a request that makes no sense": {
		caught:  "NonsenseIsRefused",
		repairs: true,
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			req.TTL = max(req.TTL, time.Second)
			return s.Store.Acquire(ctx, req)
		},
	},
	"serves the last first": {
		caught: "FirstComeFirstServed",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			s.swapping.Lock()
			defer s.swapping.Unlock()
			lease, err := s.Store.Acquire(ctx, s.swapped(req))
			var held *backends.HeldError
			if errors.As(err, &held) && held.Next != nil && held.Ahead > 1 && req.Mode == backends.Exclusive && req.Place > 0 {
				s.swap(req.ID, held.Next.ID)
				lease, err = s.Store.Acquire(ctx, s.swapped(req))
			}
			lease.ID = req.ID
			return lease, err
		},
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			lease.ID = s.swapped(backends.Request{ID: lease.ID}).ID
			return s.Store.Renew(ctx, lease)
		},
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			return s.Store.Release(ctx, key, s.swapped(backends.Request{ID: id}).ID, outcome)
		},
	},
	"lets a newcomer pass the line": {
		caught: "NewcomerStaysBehindTheLine",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && held.Next != nil && req.Place == 0 && req.Mode == backends.Exclusive {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"gives everybody a place": {
		caught: "NoPlaceUnlessAsked",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.Place == 0 && req.Mode == backends.Exclusive && s.lastGrant().Mode == backends.Exclusive {
				req.Place = 15 * time.Second
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"keeps a place once only": {
		caught: "PlaceIsKeptByAsking",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if s.state(ctx, req.Key, req.ID) == backends.Waiting {
				req.Place = 0
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"leases a place for the TTL": {
		caught: "PlaceIgnoresTheTTL",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			req.Place = min(req.Place, req.TTL)
			return s.Store.Acquire(ctx, req)
		},
	},
	"keeps the dead in line": {
		caught: "DeadPlaceFallsOut",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if len(s.line(ctx, req.Key)) == 1 {
				req.Place *= 3
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"drops places early": {
		caught: "PlaceLastsAsAsked",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			req.Place /= 2
			return s.Store.Acquire(ctx, req)
		},
	},
	"hides the holder": {
		caught: "HeldErrorTellsTheHolder",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && len(held.Holders) > 0 {
				held.Holders[0].Owner = backends.Owner{}
			}
			return lease, err
		},
	},
	"counts who asks as waiting": {
		caught: "HeldErrorCountsTheLine",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && req.Place > 0 && s.lastGrant().Mode == backends.Exclusive && !s.lapsed(ctx, req.Key, false) {
				held.Waiters++
			}
			return lease, err
		},
	},
	"counts the dead in the middle": {
		caught: "DeadPlacesAreNotCounted",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && held.Ahead > 0 && s.lapsed(ctx, req.Key, false) {
				held.Ahead++
			}
			return lease, err
		},
	},
	"tells the TTL instead of the rest": {
		caught: "RetryAfterIsTheEndInFront",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && len(held.Holders) == 1 && held.Holders[0].State == backends.Holding {
				held.RetryAfter = 2 * req.TTL
			}
			return lease, err
		},
	},
	"misses what came before Wait": {
		caught: "WaitMissesNothing",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			now, cancel := context.WithTimeout(ctx, 1)
			defer cancel()
			if req := s.asked(held); s.Store.Wait(now, held) == nil && req.Once == nil && req.Mode == backends.Exclusive {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.Store.Wait(ctx, held)
		},
	},
	"wakes everybody": {
		caught: "OneHandOverWakesOne",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			first := func() string { return append(states(s.line(ctx, held.Key)), "nobody")[0] }
			before := first()
			return s.waitOr(ctx, held, func() bool { return s.asked(held).Mode == backends.Exclusive && first() != before })
		},
	},
	"wakes the first for a slot when the last holder goes": {
		caught: "FirstForASlotWaitsForAnyHolder",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			for s.asked(held).Mode == backends.Slots && held.Ahead == 0 && ctx.Err() == nil {
				if last := held.Holders[len(held.Holders)-1]; s.state(ctx, held.Key, last.ID) == "" {
					return nil
				}
				time.Sleep(time.Second)
			}
			return s.Store.Wait(ctx, held)
		},
	},
	"wakes nobody by a turn taken": {
		caught: "NextForASlotWaitsForTheTurnInFront",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			line := s.line(ctx, held.Key)
			if last := len(line) - 1; held.Ahead > 0 && line[0].State == backends.Holding && line[0].Mode == backends.Slots && line[last].Mode == backends.Slots && line[last-1].Mode == backends.Slots {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.Store.Wait(ctx, held)
		},
	},
	"wakes the first shared only": {
		caught: "SharedWaitForTheExclusive",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			line := s.line(ctx, held.Key)
			if s.asked(held).Mode == backends.Shared && len(line) > 2 && line[0].State == backends.Holding && line[1].Mode == backends.Shared {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.Store.Wait(ctx, held)
		},
	},
	"lets who asks often pass a long line": {
		caught: "HoldersNeverMeet",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && len(held.Holders) > 0 && held.Waiters >= 3 && s.knows(req.ID).asked && req.Mode == backends.Exclusive {
				return forged(req), nil
			}
			return lease, err
		},
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			if held.Waiters >= 3 && s.asked(held).Mode == backends.Exclusive {
				time.Sleep(time.Millisecond / 2)
				return nil
			}
			return s.Store.Wait(ctx, held)
		},
	},
	"wakes nobody by a removal": {
		caught: "WaitReturnsOnRemoval",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			err := s.Store.Wait(ctx, held)
			time.Sleep(time.Second)
			if len(held.Holders) > 0 && held.Holders[0].State == backends.Holding && s.knows(held.Holders[0].ID).removed {
				<-ctx.Done()
			}
			return err
		},
	},
}
