package backendtest_test

import (
	"context"
	"errors"

	"flockd/backends"
)

// sharingFaults break who may hold beside whom.
var sharingFaults = map[string]fault{
	"starves the exclusive": {
		caught: "WaitingExclusiveStopsLaterShared",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && req.Mode == backends.Shared && len(held.Holders) > 0 && held.Holders[0].Mode == backends.Shared {
				if held.Ahead > 0 && req.Place == 0 && s.line(ctx, req.Key)[1].Mode == backends.Exclusive {
					return forged(req), nil
				}
			}
			return lease, err
		},
	},
	"gives the next slot instead of the lowest": {
		caught: "LowestFreeSlotIsGiven",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if req.Slots == 4 {
				lease.Slot = (lease.Slot + 1) % 4
			}
			return lease, err
		},
	},
	"lets a newcomer pass the first for a slot": {
		caught: "NewcomerStaysBehindTheFirstForASlot",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if err != nil && req.Slots == 1 && req.Place == 0 {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"mixes numbers of slots": {
		caught: "SlotsOfAnotherNumberWait",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if line := s.line(ctx, req.Key); err != nil && req.Slots == 3 && len(line) == 2 && line[0].Slots == 2 {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"counts a dead shared holder": {
		caught: "EndedSharedStopsNoExclusive",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && len(held.Holders) > 0 && held.Holders[0].Mode == backends.Shared && s.lapsed(ctx, req.Key, true) {
				held.Holders = append(held.Holders, backends.Claim{ID: "dead"})
			}
			return lease, err
		},
	},
	"lets an ID change its mode": {
		caught: "ClaimStaysOfItsMode",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && req.Mode == backends.Shared && s.knows(req.ID).mode == backends.Exclusive {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"takes the largest token for the last run": {
		caught: "LastRunIsTheLastToEnd",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			status, _ := s.Store.Inspect(ctx, key)
			for _, c := range status.Line {
				if status.Last != nil && c.ID == id && c.Token < status.Last.Token {
					outcome = backends.Outcome{}
				}
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
	"gives the slot after the one that ended": {
		caught: "SlotInTheMiddleThatEndedIsFree",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if err == nil && req.Slots == 3 && lease.Slot == 1 && s.lapsed(ctx, req.Key, true) {
				lease.Slot++
			}
			return lease, err
		},
	},
	"tells the last end of a slot": {
		caught: "RetryAfterIsTheFirstEndOfASlot",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && req.Mode == backends.Slots {
				held.RetryAfter *= 3
			}
			return lease, err
		},
	},
	"makes tokens of the places": {
		caught: "TokensGrowInTheOrderOfGrants",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			before := s.lastGrant()
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); err == nil && p.asked && before.Mode == backends.Shared && s.knows(before.ID).order > p.order {
				lease.Token = before.Token - 1
			}
			return lease, err
		},
	},
	"names one holder": {
		caught: "AllSharedHoldersAreNamed",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && len(held.Holders) > 1 {
				held.Holders = held.Holders[:1]
			}
			return lease, err
		},
	},
	"counts shared holders as waiting": {
		caught: "MixedLineIsToldAsItIs",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && len(held.Holders) > 1 && held.Holders[1].Mode == backends.Shared {
				held.Ahead, held.Waiters = held.Ahead+1, held.Waiters+1
			}
			return lease, err
		},
	},
	"lets nobody in beside a cooling shared": {
		caught: "SharedFitsBesideACoolingShared",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if line := s.line(ctx, req.Key); len(line) > 0 && line[0].State == backends.Cooling && req.Mode == backends.Shared {
				return backends.Lease{}, &backends.HeldError{Key: req.Key, Holders: line}
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"counts dead places for slots": {
		caught: "DeadPlaceCountsForNoSlot",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.Slots == 2 {
				req.Place *= 3
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"gives a slot that cools": {
		caught: "SlotThatCoolsIsTaken",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			line := s.line(ctx, req.Key)
			lease, err := s.Store.Acquire(ctx, req)
			if err == nil && len(line) > 0 && line[0].State == backends.Cooling {
				lease.Slot = line[0].Slot
			}
			return lease, err
		},
	},
	"counts slots and takes them later": {
		caught: "SlotHoldersNeverShareASlot",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			line := s.line(ctx, req.Key)
			lease, err := s.Store.Acquire(ctx, req)
			if err == nil && req.Mode == backends.Slots && len(line) > 5 {
				lease.Slot = line[0].Slot
			}
			return lease, err
		},
	},
}
