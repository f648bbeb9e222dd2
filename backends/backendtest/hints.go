package backendtest

import (
	"context"
	"time"

	"flockd/backends"
)

var hintProperties = []property{
	{name: "WaitReturnsOnRelease", needs: Waits, test: waitRelease},
	{name: "WaitMissesNothing", needs: Waits, test: waitMisses},
	{name: "WaitReturnsThoughTheOneInFrontGaveUp", needs: Waits, test: waitGivesUp},
	{name: "WaitReturnsOnRemoval", needs: Waits, test: waitRemoval},
	{name: "WaitEndsWithItsContext", needs: Waits, test: waitContext},
	{name: "OneHandOverWakesOne", needs: Waits, test: wakesOne},
	{name: "SharedWaitForTheExclusive", needs: Waits | SharedHolds, test: waitShared},
	{name: "FirstForASlotWaitsForAnyHolder", needs: Waits | SlotHolds, test: waitSlot},
	{name: "NextForASlotWaitsForTheTurnInFront", needs: Waits | SlotHolds, test: waitTurn},
}

func waitRelease(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	wait := b.wait(b.held(b.queue()))
	wait.sleepsOn("nothing has happened")
	a.release(lease)
	wait.returns()
}

// A release between the answer and Wait counts.
func waitMisses(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	held := b.held(b.queue())
	a.release(lease)
	b.wait(held).returns()
}

func waitGivesUp(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second := b.queue()
	b.held(second)
	wait := c.wait(c.held(c.queue()))
	b.giveUp(second)
	a.release(lease)
	wait.returns()
}

func waitRemoval(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	wait := b.wait(b.held(b.queue()))
	a.removes(lease)
	wait.returns()
}

func waitContext(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	held := b.held(b.queue())
	waiter, _ := backends.As[backends.Waiter](b.Backend)
	ctx, cancel := context.WithTimeout(e.Context(), e.h.TTL/4)
	defer cancel()
	start := time.Now()
	e.is(waiter.Wait(ctx, held), context.DeadlineExceeded, "Wait")
	if late := time.Since(start) - e.h.TTL/4; late > e.patient {
		e.Errorf("Wait ended %v after its context", late)
	}
}

// Only the first in line is woken by the release, and nobody by the grant.
func wakesOne(e *env) {
	a, b, c := e.trio()
	d := e.client()
	lease := a.grant(a.request())
	second, third := b.queue(), c.queue()
	first := b.wait(b.held(second))
	next, last := c.wait(c.held(third)), d.wait(d.held(d.queue()))
	a.release(lease)
	first.returns()
	lease = b.grant(second)
	next.sleepsOn("it was the turn of the one in front")
	b.release(lease)
	next.returns()
	last.sleepsOn("it was the turn of others")
}

func waitShared(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	first := b.wait(b.held(b.mode(backends.Shared, 0)))
	second := c.wait(c.held(c.mode(backends.Shared, 0)))
	a.release(lease)
	first.returns()
	second.returns()
}

func waitSlot(e *env) {
	for holder := range 2 {
		a, b, c := e.trio()
		e.key += "+"
		leases := []backends.Lease{a.grant(a.mode(backends.Slots, 2)), b.grant(b.mode(backends.Slots, 2))}
		wait := c.wait(c.held(c.mode(backends.Slots, 2)))
		a.release(leases[holder])
		wait.returns()
	}
}

// Both slots become free while the first in line hasn't asked yet.
func waitTurn(e *env) {
	a, b, c := e.trio()
	d := e.client()
	leases := []backends.Lease{a.grant(a.mode(backends.Slots, 2)), b.grant(b.mode(backends.Slots, 2))}
	first, second := c.mode(backends.Slots, 2), d.mode(backends.Slots, 2)
	c.held(first)
	wait := d.wait(d.held(second))
	a.release(leases[0])
	a.release(leases[1])
	wait.sleepsOn("the one in front has not taken its turn")
	c.grant(first)
	wait.returns()
	d.grant(second)
}
