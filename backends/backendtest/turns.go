package backendtest

import "flockd/backends"

// turnProperties: who waits hears of its turn, whatever the modes of those around it.
var turnProperties = []property{
	{name: "WaiterHearsWhenTheLastSharedGoes", needs: Waits | SharedHolds, test: lastGoes(client.shared, client.queue)},
	{name: "WaiterHearsWhenTheLastSlotGoes", needs: Waits | SlotHolds, test: lastGoes(threeSlots, client.queue)},
	{name: "WaiterForSlotsHearsWhenTheLastOfAnotherNumberGoes", needs: Waits | SlotHolds, test: lastGoes(threeSlots, twoSlots)},
	{name: "WaiterForSlotsHearsWhenTheLastSharedGoes", needs: Waits | SlotHolds | SharedHolds, test: lastGoes(client.shared, twoSlots)},
	{name: "SharedHearsThatTheExclusiveGaveUp", needs: Waits | SharedHolds, test: exclusiveLeaves(client.shared, client.giveUp)},
	{name: "SharedHearsThatTheExclusiveWasRemoved", needs: Waits | SharedHolds, test: exclusiveLeaves(client.shared, client.removesPlace)},
	{name: "SlotWaiterHearsThatTheExclusiveGaveUp", needs: Waits | SlotHolds, test: exclusiveLeaves(threeSlots, client.giveUp)},
	{name: "SlotWaiterHearsThatASlotWasRemoved", needs: Waits | SlotHolds, test: slotRemoved},
	{name: "WaiterHearsThatTheOneInFrontGaveUp", needs: Waits, test: frontLeaves(client.queue, client.queue, client.giveUp)},
	{name: "WaiterHearsThatTheOneInFrontWasRemoved", needs: Waits, test: frontLeaves(client.queue, client.queue, client.removesPlace)},
	{name: "WaiterHearsThatTheSharedInFrontGaveUp", needs: Waits | SharedHolds, test: frontLeaves(client.shared, client.queue, client.giveUp)},
	{name: "SharedHearsThatTheOneInFrontGaveUp", needs: Waits | SharedHolds, test: frontLeaves(client.queue, client.shared, client.giveUp)},
	{name: "SlotWaiterHearsThatTheOneInFrontGaveUp", needs: Waits | SlotHolds, test: frontLeaves(threeSlots, threeSlots, client.giveUp)},
	{name: "WaiterHearsThatTheOneInFrontWasDone", needs: Waits | Ledgers, test: frontDone},
	{name: "SharedSleepsThroughTheGrantInFront", needs: Waits | SharedHolds, test: sharedSleeps},
	{name: "WaiterForARunHearsOfItsTurn", needs: Waits | Ledgers, test: runWaiterTurn},
	{name: "WaiterHearsThatCoolingWasEnded", needs: Waits | MinHolds, test: coolingRemoved},
}

func threeSlots(c client) backends.Request { return c.slots(3) }
func twoSlots(c client) backends.Request   { return c.slots(2) }

// removesPlace ends a place by force.
func (c client) removesPlace(req backends.Request) {
	c.e.Helper()
	c.removes(backends.Lease{ID: req.ID})
}

// lastGoes tests that one that waits hears of it when two holders have gone, in either
// order, without asking in between.
func lastGoes(holds, waits mode) func(e *env) {
	return func(e *env) {
		for last := range 2 {
			a, b, c := e.trio()
			e.key += "+"
			leases := []backends.Lease{a.grant(holds(a)), b.grant(holds(b))}
			req := waits(c)
			wait := c.wait(c.held(req))
			a.release(leases[1-last])
			a.release(leases[last])
			wait.returns()
			c.grant(req)
		}
	}
}

// exclusiveLeaves tests that one behind a waiting exclusive hears that this has left.
func exclusiveLeaves(ask mode, leave func(client, backends.Request)) func(e *env) {
	return func(e *env) {
		a, b, c := e.trio()
		a.grant(ask(a))
		exclusive, behind := b.queue(), ask(c)
		b.held(exclusive)
		wait := c.wait(c.held(behind))
		leave(b, exclusive)
		wait.returns()
		c.grant(behind)
	}
}

// frontLeaves tests that one whose turn is far hears that the waiter in front has left:
// it has to learn what it waits for now, for nobody may be there to make it move on.
func frontLeaves(front, waits mode, leave func(client, backends.Request)) func(e *env) {
	return func(e *env) {
		a, b, c := e.trio()
		a.grant(a.request())
		middle := front(b)
		a.held(a.queue())
		b.held(middle)
		wait := c.wait(c.held(waits(c)))
		wait.sleepsOn("nothing has happened")
		leave(b, middle)
		wait.returns()
	}
}

// The answer that its run has succeeded takes it out of the line.
func frontDone(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.once("v42"))
	middle := b.once("v42")
	a.held(a.queue())
	b.held(middle)
	a.complete(lease)
	wait := c.wait(c.held(c.queue()))
	b.acquireIs(backends.ErrDone, middle)
	wait.returns()
}

func slotRemoved(e *env) {
	a, b, c := e.trio()
	a.grant(twoSlots(a))
	lease := b.grant(twoSlots(b))
	req := twoSlots(c)
	wait := c.wait(c.held(req))
	a.removes(lease)
	wait.returns()
	c.grant(req)
}

// One hand-over in front of it is none of its own.
func sharedSleeps(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	exclusive, shared := b.queue(), c.shared()
	b.held(exclusive)
	wait := c.wait(c.held(shared))
	a.release(lease)
	lease = b.grant(exclusive)
	wait.sleepsOn("it was the turn of the one in front")
	b.release(lease)
	wait.returns()
	c.grant(shared)
}

// The run has failed, and it is the waiter's to do.
func runWaiterTurn(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.once("v42"))
	req := b.once("v42")
	wait := b.wait(b.held(req))
	a.releaseWith(lease, failed)
	wait.returns()
	b.grant(req)
}

func coolingRemoved(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.long))
	a.release(lease)
	req := b.queue()
	wait := b.wait(b.held(req))
	a.removes(lease)
	wait.returns()
	b.grant(req)
}
