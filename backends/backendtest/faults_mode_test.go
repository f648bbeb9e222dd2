package backendtest_test

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

// modeFaults break who may hold beside whom.
var modeFaults = map[string]fault{
	"lets a frozen exclusive waiter in":  grantsFrozen(backends.Exclusive, "FrozenExclusiveWaiterGoesToTheEnd"),
	"lets a frozen shared waiter in":     grantsFrozen(backends.Shared, "FrozenSharedWaiterGoesToTheEnd"),
	"lets a frozen waiter for a slot in": grantsFrozen(backends.Slots, "FrozenSlotWaiterGoesToTheEnd"),

	"renews all who share":             renewsAll(backends.Shared, "SharedHoldsHaveTheirOwnTTL"),
	"renews all who have a slot":       renewsAll(backends.Slots, "SlotHoldsHaveTheirOwnTTL"),
	"gives all who share the last TTL": lastTTL(backends.Shared, "SharedHoldsHaveTheirOwnTTL"),
	"gives all slots the last TTL":     lastTTL(backends.Slots, "SlotHoldsHaveTheirOwnTTL"),

	"starves the exclusive": {
		caught: "WaitingExclusiveStopsLaterShared",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && req.Mode == backends.Shared && len(held.Holders) > 0 && held.Holders[0].Mode == backends.Shared {
				if held.Ahead > 0 && s.line(ctx, req.Key)[1].Mode == backends.Exclusive {
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
			if err != nil && req.Mode == backends.Slots && req.Place == 0 {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"mixes numbers of slots": {
		caught: "SlotsOfAnotherNumberWait",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if line := s.line(ctx, req.Key); err != nil && req.Slots == 3 && len(line) < 3 && line[0].Slots == 2 {
				return forged(req), nil
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
	"keeps a dead exclusive in front of shared": {
		caught: "DeadExclusiveStopsNoLaterShared",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if line := s.line(ctx, req.Key); len(line) > 1 && line[1].Mode == backends.Shared && req.Mode == backends.Exclusive {
				req.Place *= 3
			}
			return s.Store.Acquire(ctx, req)
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

// grantsFrozen grants the key to a waiter whose place has ended.
func grantsFrozen(mode backends.Mode, caught string) fault {
	return fault{
		caught: caught,
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			p := s.knows(req.ID)
			frozen := p.asked && !p.granted && !p.released && s.state(ctx, req.Key, req.ID) == ""
			lease, err := s.Store.Acquire(ctx, req)
			if frozen && req.Mode == mode && req.Place > 0 && errors.Is(err, backends.ErrHeld) {
				return forged(req), nil
			}
			return lease, err
		},
	}
}

// renewsAll lets one renewal extend every hold of the mode.
func renewsAll(mode backends.Mode, caught string) fault {
	return fault{
		caught: caught,
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			if err == nil && lease.Mode == mode {
				s.renewAll(ctx, lease.Key, lease.TTL)
			}
			return renewal, err
		},
	}
}

// lastTTL makes each grant of the mode the TTL of all.
func lastTTL(mode backends.Mode, caught string) fault {
	return fault{
		caught: caught,
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if err == nil && req.Mode == mode && req.Slots != 2 {
				s.renewAll(ctx, req.Key, req.TTL)
			}
			return lease, err
		},
	}
}

// renewAll makes everybody who holds key hold it for ttl from now.
func (s *store) renewAll(ctx context.Context, key string, ttl time.Duration) {
	for _, c := range s.line(ctx, key) {
		s.Store.Renew(ctx, backends.Lease{Key: key, ID: c.ID, TTL: ttl})
	}
}
