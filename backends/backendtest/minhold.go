package backendtest

import (
	"time"

	"flockd/backends"
)

var minHoldProperties = []property{
	{name: "MinHoldOutlastsRelease", needs: MinHolds, test: outlastsRelease},
	{name: "MinHoldOutlastsTheLease", needs: MinHolds, test: outlastsLease},
	{name: "MinHoldPassesInTime", needs: MinHolds, test: minHoldPasses},
	{name: "MinHoldOverIsNoDelay", needs: MinHolds, test: minHoldOver},
	{name: "MinHoldDoesNotEndALease", needs: MinHolds, test: minHoldShort},
	{name: "TTLOfAHoldIsShown", needs: MinHolds, test: ttlShown},
	{name: "CoolingIsNoHold", needs: MinHolds, test: coolingIsNoHold},
	{name: "CoolingIsShown", needs: MinHolds, test: coolingShown},
	{name: "AskingAgainDoesNotEndCooling", needs: MinHolds, test: askingWhileCooling},
	{name: "MinHoldCountsFromTheGrant", needs: MinHolds, test: minHoldFromGrant},
	{name: "EachMinHoldCounts", needs: MinHolds | SharedHolds, test: eachMinHold},
	{name: "RetryAfterIsTheEndOfCooling", needs: MinHolds, test: retryAfterCooling},
	{name: "ForceEndsCooling", needs: MinHolds, test: forceEndsCooling},
}

// cools asks for a hold of ttl that keeps the key for minHold.
func (c client) cools(ttl, minHold time.Duration) backends.Request {
	req := c.request()
	req.TTL, req.MinHold = ttl, minHold
	return req
}

func outlastsRelease(e *env) {
	a, b, _ := e.trio()
	start := time.Now()
	a.release(a.grant(a.cools(e.long, e.h.TTL)))
	_, at := b.untilGranted(b.request())
	e.notBefore(start, e.h.TTL, at, "granted to another")
}

func outlastsLease(e *env) {
	a, b, _ := e.trio()
	start := time.Now()
	a.grant(a.cools(e.h.TTL, 2*e.h.TTL))
	_, at := b.untilGranted(b.request())
	e.notBefore(start, 2*e.h.TTL, at, "granted to another")
}

// It counts from the grant, and no renewal moves it.
func minHoldPasses(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.h.TTL))
	granted := time.Now()
	time.Sleep(e.h.TTL / 2)
	a.renew(lease)
	a.release(lease)
	e.ended(e.h.TTL - time.Since(granted))
	b.grant(b.request())
}

func minHoldOver(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.h.TTL))
	e.ended(e.h.TTL)
	a.release(lease)
	b.grant(b.request())
}

func minHoldShort(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.h.TTL/4))
	e.ended(e.h.TTL / 4)
	b.held(b.request())
	a.renew(lease)
}

// Whoever renews for as long as is shown leaves the lease as long as it is, also where the key is
// kept for longer.
func ttlShown(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, 2*e.long))
	for range 2 {
		shown := b.inLine(lease.ID)
		if shown == nil || shown.TTL <= 0 {
			e.Fatalf("the holder is shown as %+v", shown)
		}
		same := lease
		same.TTL = shown.TTL
		if got := b.renew(same).TTL; got != lease.TTL {
			e.Errorf("shown is %v, by which it is renewed for %v, and not %v", shown.TTL, got, lease.TTL)
		}
		lease.TTL /= 2
		lease.TTL = a.renew(lease).TTL
	}
}

func coolingIsNoHold(e *env) {
	a := e.client()
	req := a.cools(e.long, e.long)
	lease := a.grant(req)
	a.release(lease)
	a.renewIsLost(lease)
	a.releaseIsLost(e.key, lease.ID)
	a.acquireIs(backends.ErrLost, req)
}

func coolingShown(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.long))
	a.release(lease)
	held := b.held(b.request())
	if len(held.Holders) != 1 || held.Holders[0].ID != lease.ID || held.Holders[0].State != backends.Cooling {
		e.Errorf("holders %+v, want %s cooling", held.Holders, lease.ID)
	}
	if claim := b.inLine(lease.ID); claim == nil || claim.State != backends.Cooling || claim.Token != lease.Token {
		e.Errorf("shown as %+v, want cooling", claim)
	}
}

// An ID whose lease has ended may ask again, but its own MinHold stays in its way.
func askingWhileCooling(e *env) {
	a, b, _ := e.trio()
	req := a.cools(e.h.TTL, e.long)
	a.grant(req)
	b.untilGone(req.ID)
	if lease, err := a.Acquire(e.Context(), req); err == nil {
		e.Errorf("granted %+v", lease)
	}
	b.held(b.request())
}

func forceEndsCooling(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.long))
	a.release(lease)
	b.removes(lease)
	b.grant(b.request())
}

// Not from when it was asked for first.
func minHoldFromGrant(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req := b.cools(e.long, e.h.TTL)
	req.Place = e.long
	b.held(req)
	time.Sleep(e.h.TTL / 2)
	a.release(lease)
	start := time.Now()
	b.release(b.grant(req))
	_, at := c.untilGranted(c.request())
	e.notBefore(start, e.h.TTL, at, "granted to another")
}

// The first of those that share keeps the key for longer than the last.
func eachMinHold(e *env) {
	a, b, c := e.trio()
	first, last := a.shared(), b.shared()
	first.MinHold, last.MinHold = e.h.TTL, e.h.TTL/4
	start := time.Now()
	for _, lease := range []backends.Lease{a.grant(first), b.grant(last)} {
		a.release(lease)
	}
	_, at := c.untilGranted(c.request())
	e.notBefore(start, e.h.TTL, at, "granted to another")
}

func retryAfterCooling(e *env) {
	a, b, _ := e.trio()
	a.release(a.grant(a.cools(e.long, e.long/2)))
	after, most := b.held(b.queue()).RetryAfter, e.long/2+e.h.Granularity
	if known := after != 0 || e.h.Has&Dates != 0; known && (after <= 0 || after > most) {
		e.Errorf("RetryAfter %v, want %v at most", after, most)
	}
}
