package backendtest

import (
	"context"
	"errors"
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
	{name: "FirstInLineIsGrantedWhenTheLeaseEnds", test: grantedAtTheEnd},
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

// The holder has renewed since the waiter has first asked, and dies. What tells the waiter is an
// answer or a hint: it seldom asks without them. Both are connected before, and the lease is long
// enough, for a busy machine to renew it.
func grantedAtTheEnd(e *env) {
	a, b, _ := e.trio()
	b.status()
	hold, req := a.request(), b.queue()
	hold.TTL, req.TTL = 3*e.h.TTL, 4*e.h.TTL
	lease := a.grant(hold)
	asked := time.Now()
	held := b.held(req)
	time.Sleep(e.h.TTL / 4) // by which the renewal puts the end off
	a.renew(lease)
	renewed := time.Now()
	seldom := e.patient / 2
	at := b.standsInLine(req, asked, held, seldom)
	if late := at.Sub(renewed) - lease.TTL - e.h.Granularity; late > seldom*3/4 {
		e.Errorf("granted %v after the lease has ended", late)
	}
}

// standsInLine waits as flockd does, on from when it asked and was answered held, and asks every
// so often at least. It returns when the answer came that req is granted.
func (c client) standsInLine(req backends.Request, asked time.Time, held *backends.HeldError, every time.Duration) time.Time {
	c.e.Helper()
	for {
		longest := every
		if held.RetryAfter > 0 {
			longest = min(longest, held.RetryAfter)
		}
		c.hint(held, longest-time.Since(asked))
		asked = time.Now()
		_, err := c.Acquire(c.e.Context(), req)
		if err == nil {
			return time.Now()
		}
		if held = nil; !errors.As(err, &held) {
			c.e.Fatalf("Acquire = %v, want a lease or ErrHeld", err)
		}
	}
}

// hint returns when the line may have moved, and after longest.
func (c client) hint(held *backends.HeldError, longest time.Duration) {
	ctx, cancel := context.WithTimeout(c.e.Context(), longest)
	defer cancel()
	if waiter, ok := backends.As[backends.Waiter](c.Backend); ok && waiter.Wait(ctx, held) == nil {
		return
	}
	<-ctx.Done()
}
