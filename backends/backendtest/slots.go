package backendtest

import (
	"sync/atomic"
	"time"

	"flockd/backends"
)

var slotProperties = []property{
	{name: "SlotsAreAsManyAsAsked", needs: SlotHolds, test: asManySlots},
	{name: "SlotsExcludeExclusive", needs: SlotHolds, test: slotsExclude},
	{name: "SlotsOfAnotherNumberWait", needs: SlotHolds, test: otherNumber},
	{name: "SlotsAndSharedWaitForEachOther", needs: SlotHolds | SharedHolds, test: otherFamily},
	{name: "LowestFreeSlotIsGiven", needs: SlotHolds, test: lowestFree},
	{name: "AskingAgainKeepsTheSlot", needs: SlotHolds, test: slotKept},
	{name: "NewcomerStaysBehindTheFirstForASlot", needs: SlotHolds, test: slotLine},
	{name: "SlotOfALeaseThatEndedIsFree", needs: SlotHolds, test: slotEnds},
	{name: "SlotInTheMiddleThatEndedIsFree", needs: SlotHolds, test: middleSlotEnds},
	{name: "RetryAfterIsTheFirstEndOfASlot", needs: SlotHolds, test: slotRetryAfter},
	{name: "DeadPlaceCountsForNoSlot", needs: SlotHolds, test: deadForSlot},
	{name: "SlotThatCoolsIsTaken", needs: SlotHolds | MinHolds, test: slotCools},
	{name: "SlotHoldersNeverShareASlot", needs: SlotHolds, test: neverShareSlot},
}

func (c client) slots(n int) backends.Request { return c.mode(backends.Slots, n) }

func asManySlots(e *env) {
	a, b, c := e.trio()
	first, second := a.grant(a.slots(2)), b.grant(b.slots(2))
	if first.Slot == second.Slot {
		e.Errorf("slot %d twice", first.Slot)
	}
	e.above(second.Token, first.Token)
	req := c.slots(2)
	c.held(req)
	a.release(first)
	c.grant(req)
}

func slotsExclude(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.slots(2))
	exclusive, later := b.queue(), c.slots(2)
	b.held(exclusive)
	c.held(later)
	a.release(lease)
	lease = b.grant(exclusive)
	c.held(later)
	b.release(lease)
	c.grant(later)
}

// A busy key drains before another number of slots counts.
func otherNumber(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.slots(2))
	req := b.slots(3)
	b.held(req)
	a.release(lease)
	b.grant(req)
}

func otherFamily(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.shared())
	slot, shared := b.slots(2), c.shared()
	b.held(slot)
	c.held(shared)
	a.release(lease)
	c.held(shared)
	lease = b.grant(slot)
	c.held(shared)
	b.release(lease)
	c.grant(shared)
}

func lowestFree(e *env) {
	a := e.client()
	var leases []backends.Lease
	for want := range 4 {
		lease := a.grant(a.slots(4))
		leases = append(leases, lease)
		if lease.Slot != want {
			e.Errorf("slot %d, want %d", lease.Slot, want)
		}
	}
	a.release(leases[2])
	a.release(leases[1])
	for want := 1; want <= 2; want++ {
		if lease := a.grant(a.slots(4)); lease.Slot != want {
			e.Errorf("slot %d, want the lowest free one, %d", lease.Slot, want)
		}
	}
}

func slotKept(e *env) {
	a := e.client()
	first := a.grant(a.slots(3))
	req := a.slots(3)
	lease := a.grant(req)
	a.release(first)
	if again := a.grant(req); again.Slot != lease.Slot {
		e.Errorf("slot %d when asked again, %d before", again.Slot, lease.Slot)
	}
	if claim := a.inLine(req.ID); claim == nil || claim.Slot != lease.Slot || claim.Slots != 3 {
		e.Errorf("shown as %+v, want slot %d of 3", claim, lease.Slot)
	}
}

func slotLine(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.slots(1))
	first, later := b.slots(1), c.slots(1)
	later.Place = 0
	b.held(first)
	a.release(lease)
	c.held(later)
	b.grant(first)
}

func slotEnds(e *env) {
	a, b, c := e.trio()
	brief := a.slots(2)
	brief.TTL = e.h.TTL
	lease := a.grant(brief)
	b.grant(b.slots(2))
	next, _ := c.untilGranted(c.slots(2))
	if next.Slot != lease.Slot {
		e.Errorf("slot %d, want the one that became free, %d", next.Slot, lease.Slot)
	}
}

// The others renew meanwhile.
func middleSlotEnds(e *env) {
	a, b, c := e.trio()
	brief := b.slots(3)
	brief.TTL = e.h.TTL
	first := a.grant(a.slots(3))
	middle := b.grant(brief)
	last := a.grant(a.slots(3))
	var next backends.Lease
	req := c.slots(3)
	e.until("a slot is granted", func() (granted bool) {
		a.renew(first)
		a.renew(last)
		var err error
		next, err = c.Acquire(e.Context(), req)
		return err == nil
	})
	if next.Slot != middle.Slot {
		e.Errorf("slot %d, want the one that became free, %d", next.Slot, middle.Slot)
	}
	c.held(c.slots(3))
}

func slotRetryAfter(e *env) {
	a, b, c := e.trio()
	a.grant(a.slots(2))
	brief := b.slots(2)
	brief.TTL = e.long / 2
	b.grant(brief)
	after, most := c.held(c.slots(2)).RetryAfter, brief.TTL+e.h.Granularity
	if known := after != 0 || e.h.Has&Dates != 0; known && (after <= 0 || after > most) {
		e.Errorf("RetryAfter %v, want %v at most", after, most)
	}
}

func deadForSlot(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.slots(2))
	b.grant(b.slots(2))
	dead, behind := b.slots(2), c.slots(2)
	dead.Place = e.h.TTL
	b.held(dead)
	c.held(behind)
	a.release(lease)
	e.ended(dead.Place)
	c.grant(behind)
}

func slotCools(e *env) {
	a, b, c := e.trio()
	req := a.slots(2)
	req.MinHold = e.long
	lease := a.grant(req)
	a.release(lease)
	if next := b.grant(b.slots(2)); next.Slot == lease.Slot {
		e.Errorf("slot %d was given while it cooled", next.Slot)
	}
	c.held(c.slots(2))
}

// Many more than the slots ask at once, and again and again.
func neverShareSlot(e *env) {
	const clients, rounds, slots = 8, 3, 3
	var taken [slots]atomic.Int32
	e.race(clients, func(c client) {
		for range rounds {
			lease, err := c.stand(c.slots(slots))
			if err != nil || lease.Slot < 0 || lease.Slot >= slots {
				e.Errorf("Acquire = slot %d, %v", lease.Slot, err)
				return
			}
			if n := taken[lease.Slot].Add(1); n != 1 {
				e.Errorf("%d holders of slot %d at once", n, lease.Slot)
			}
			time.Sleep(time.Millisecond)
			taken[lease.Slot].Add(-1)
			if err := c.Release(e.Context(), lease.Key, lease.ID, succeeded); err != nil {
				e.Errorf("Release = %v", err)
			}
		}
	})
}
