package backendtest_test

import (
	"context"
	"time"

	"flockd/backends"
)

// turnFaults are those of a store that wakes the wrong ones.
var turnFaults = map[string]fault{
	"hears of no end of the last shared":             deafTo("WaiterHearsWhenTheLastSharedGoes", behind(backends.Exclusive, backends.Shared)),
	"hears of no end of the last slot":               deafTo("WaiterHearsWhenTheLastSlotGoes", behind(backends.Exclusive, backends.Slots)),
	"hears of no end of a slot for a shared":         deafTo("WaiterForSlotsHearsWhenTheLastSharedGoes", behind(backends.Slots, backends.Shared)),
	"hears of no exclusive that gave up, for shared": deafTo("SharedHearsThatTheExclusiveGaveUp", gaveUp(backends.Shared)),
	"hears of no exclusive that gave up, for slots":  deafTo("SlotWaiterHearsThatTheExclusiveGaveUp", gaveUp(backends.Slots)),
	"hears of no end of a slot of another number": deafTo("WaiterForSlotsHearsWhenTheLastOfAnotherNumberGoes",
		func(s *store, held *backends.HeldError) bool {
			return s.asked(held).Slots == 2 && len(held.Holders) > 0 && held.Holders[0].Slots == 3
		}),
	"hears of no exclusive that was removed": deafTo("SharedHearsThatTheExclusiveWasRemoved",
		func(s *store, held *backends.HeldError) bool {
			return s.asked(held).Mode == backends.Shared && s.someone(func(_ string, p past) bool { return p.removed })
		}),
	"hears of no slot that was removed": deafTo("SlotWaiterHearsThatASlotWasRemoved",
		func(s *store, held *backends.HeldError) bool {
			return s.asked(held).Mode == backends.Slots && s.someone(func(_ string, p past) bool { return p.removed })
		}),
	"hears of no failure of the run that it waits for": deafTo("WaiterForARunHearsOfItsTurn",
		func(s *store, held *backends.HeldError) bool {
			return s.asked(held).Once != nil && s.entries(context.Background(), held.Key) == 0
		}),
	"hears of no end of cooling": deafTo("WaiterHearsThatCoolingWasEnded",
		func(s *store, held *backends.HeldError) bool {
			return len(held.Holders) > 0 && held.Holders[0].State == backends.Cooling
		}),
	"wakes shared by the grant in front": {
		caught: "SharedSleepsThroughTheGrantInFront",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			before := s.lastGrant()
			return s.waitOr(ctx, held, func() bool {
				return s.asked(held).Mode == backends.Shared && s.lastGrant().ID != before.ID
			})
		},
	},
}

// deafTo returns from no Wait that would return for this reason.
func deafTo(caught string, reason func(s *store, held *backends.HeldError) bool) fault {
	return fault{
		caught: caught,
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			err := s.Store.Wait(ctx, held)
			time.Sleep(time.Second)
			if err == nil && reason(s, held) {
				<-ctx.Done()
			}
			return err
		},
	}
}

// behind is the reason of one that waited behind holders of another mode.
func behind(mode, holders backends.Mode) func(s *store, held *backends.HeldError) bool {
	return func(s *store, held *backends.HeldError) bool {
		return s.asked(held).Mode == mode && len(held.Holders) > 0 && held.Holders[0].Mode == holders
	}
}

// gaveUp is the reason of one that waited behind a waiting exclusive.
func gaveUp(mode backends.Mode) func(s *store, held *backends.HeldError) bool {
	return func(s *store, held *backends.HeldError) bool {
		return behind(mode, mode)(s, held) && s.someone(func(_ string, p past) bool { return p.released && !p.granted })
	}
}
