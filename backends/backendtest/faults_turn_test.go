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
	"hears of no waiter that gave up, for exclusive": deafTo("WaiterHearsThatTheOneInFrontGaveUp", leftInFront(backends.Exclusive, backends.Exclusive, wasReleased)),
	"hears of no shared waiter that gave up":         deafTo("WaiterHearsThatTheSharedInFrontGaveUp", leftInFront(backends.Exclusive, backends.Shared, wasReleased)),
	"hears of no waiter that gave up, for shared":    deafTo("SharedHearsThatTheOneInFrontGaveUp", leftInFront(backends.Shared, backends.Exclusive, wasReleased)),
	"hears of no waiter that gave up, for slots":     deafTo("SlotWaiterHearsThatTheOneInFrontGaveUp", leftInFront(backends.Slots, backends.Slots, wasReleased)),
	"hears of no waiter that was removed":            deafTo("WaiterHearsThatTheOneInFrontWasRemoved", leftInFront(backends.Exclusive, backends.Exclusive, wasRemoved)),
	"hears of no waiter that was done": deafTo("WaiterHearsThatTheOneInFrontWasDone",
		func(s *store, held *backends.HeldError) bool {
			return s.keptFrom(held) && s.asked(held).Once == nil && s.entries(context.Background(), held.Key) > 0
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

// leftInFront is the reason of one that waits for a key that somebody holds, behind a
// waiter who has left the line like that.
func leftInFront(mode, front backends.Mode, left func(past) bool) func(s *store, held *backends.HeldError) bool {
	return func(s *store, held *backends.HeldError) bool {
		req := s.asked(held)
		mine := s.knows(req.ID)
		return req.Mode == mode && s.keptFrom(held) && s.someone(func(_ string, p past) bool {
			return left(p) && !p.granted && p.mode == front && p.order < mine.order
		})
	}
}

func wasReleased(p past) bool { return p.released }
func wasRemoved(p past) bool  { return p.removed }

// keptFrom reports whether an exclusive holder was in the way, and still is.
func (s *store) keptFrom(held *backends.HeldError) bool {
	return len(held.Holders) > 0 && held.Holders[0].Mode == backends.Exclusive && s.state(context.Background(), held.Key, held.Holders[0].ID) == held.Holders[0].State
}
