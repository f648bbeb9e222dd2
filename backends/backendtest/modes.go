package backendtest

import (
	"flockd/backends"
)

var sharedProperties = []property{
	{name: "SharedHoldTogether", needs: SharedHolds, test: sharedTogether},
	{name: "SharedExcludeExclusive", needs: SharedHolds, test: sharedExclude},
	{name: "ExclusiveExcludesShared", needs: SharedHolds, test: excludesShared},
	{name: "WaitingExclusiveStopsLaterShared", needs: SharedHolds, test: notStarved},
	{name: "SharedBehindAnExclusiveStartTogether", needs: SharedHolds, test: startTogether},
}

var slotProperties = []property{
	{name: "SlotsAreAsManyAsAsked", needs: SlotHolds, test: asManySlots},
	{name: "SlotsExcludeExclusive", needs: SlotHolds, test: slotsExclude},
	{name: "SlotsOfAnotherNumberWait", needs: SlotHolds, test: otherNumber},
	{name: "SlotsAndSharedWaitForEachOther", needs: SlotHolds | SharedHolds, test: otherFamily},
	{name: "LowestFreeSlotIsGiven", needs: SlotHolds, test: lowestFree},
	{name: "AskingAgainKeepsTheSlot", needs: SlotHolds, test: slotKept},
	{name: "NewcomerStaysBehindTheFirstForASlot", needs: SlotHolds, test: slotLine},
	{name: "SlotOfALeaseThatEndedIsFree", needs: SlotHolds, test: slotEnds},
}

func (c client) shared() backends.Request     { return c.mode(backends.Shared, 0) }
func (c client) slots(n int) backends.Request { return c.mode(backends.Slots, n) }

func sharedTogether(e *env) {
	a, b, c := e.trio()
	first, second, third := a.grant(a.shared()), b.grant(b.shared()), c.grant(c.shared())
	e.above(second.Token, first.Token)
	e.above(third.Token, second.Token)
	a.release(first)
	c.renew(third)
}

func sharedExclude(e *env) {
	a, b, c := e.trio()
	first, second := a.grant(a.shared()), b.grant(b.shared())
	req := c.queue()
	c.held(req)
	a.release(first)
	c.held(req)
	b.release(second)
	c.grant(req)
}

func excludesShared(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	req := b.shared()
	b.held(req)
	a.release(lease)
	b.grant(req)
}

func notStarved(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.shared())
	exclusive, later := b.queue(), c.shared()
	b.held(exclusive)
	c.held(later)
	a.release(lease)
	c.held(later)
	b.grant(exclusive)
}

// The second need not wait until the first has taken its turn.
func startTogether(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	first, second := b.shared(), c.shared()
	b.held(first)
	c.held(second)
	a.release(lease)
	c.grant(second)
	b.grant(first)
}

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
