package backendtest

import (
	"time"

	"flockd/backends"
)

var lineProperties = []property{
	{name: "FirstComeFirstServed", test: firstCome},
	{name: "NewcomerStaysBehindTheLine", test: newcomer},
	{name: "NoPlaceUnlessAsked", test: noPlace},
	{name: "PlaceIsKeptByAsking", test: placeKept},
	{name: "PlaceIgnoresTheTTL", test: placeIgnoresTTL},
	{name: "DeadPlaceFallsOut", test: deadPlace},
	{name: "PlaceLastsAsAsked", test: placeLasts},
	{name: "GivingUpMovesTheLine", test: givingUp},
	{name: "GrantAfterWaitingLastsItsTTL", test: grantAfterWaiting},
	{name: "HeldErrorTellsTheHolder", test: tellsHolder},
	{name: "HeldErrorCountsTheLine", test: countsLine},
	{name: "DeadPlacesAreNotCounted", test: deadNotCounted},
	{name: "RetryAfterIsTheEndInFront", test: retryAfter},
}

func firstCome(e *env) {
	a := e.client()
	lease := a.grant(a.request())
	var line []client
	var reqs []backends.Request
	for range 4 {
		c := e.client()
		line, reqs = append(line, c), append(reqs, c.queue())
		c.held(reqs[len(reqs)-1])
	}
	for len(line) > 0 {
		a.release(lease)
		for i := len(line) - 1; i > 0; i-- {
			line[i].held(reqs[i])
		}
		a, lease = line[0], line[0].grant(reqs[0])
		line, reqs = line[1:], reqs[1:]
	}
}

// Nobody holds between a release and the turn of the first in line; who comes
// then hears who is next.
func newcomer(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	first := b.queue()
	b.held(first)
	a.release(lease)
	held := c.held(c.request())
	if held.Next == nil || held.Next.ID != first.ID || held.Next.Owner != b.owner || len(held.Holders) > 0 {
		e.Errorf("next %+v of holders %+v, want %s next", held.Next, held.Holders, first.ID)
	}
}

func noPlace(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	b.held(b.request())
	if line := a.status().Line; len(line) != 1 {
		e.Errorf("line %+v, want the holder alone", line)
	}
	a.release(lease)
	c.grant(c.request())
}

func placeKept(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.queue()
	req.Place = e.h.TTL
	b.held(req)
	req.Place = e.long
	b.held(req)
	e.ended(e.h.TTL)
	if a.inLine(req.ID) == nil {
		e.Error("the place is gone")
	}
}

func placeIgnoresTTL(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.brief()
	req.Place = e.long
	b.held(req)
	e.ended(req.TTL)
	if a.inLine(req.ID) == nil {
		e.Error("the place ended with the TTL")
	}
}

// A waiter that died doesn't block those behind it for longer than its place.
func deadPlace(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req := b.queue()
	req.Place = e.h.TTL
	b.held(req)
	a.release(lease)
	e.ended(req.Place)
	c.grant(c.request())
}

func placeLasts(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req := b.queue()
	req.Place = e.h.TTL
	start := time.Now()
	b.held(req)
	a.release(lease)
	_, at := c.untilGranted(c.queue())
	e.notBefore(start, c.Traits().Trusted(req.Place), at, "granted to the next")
}

func givingUp(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second, third := b.queue(), c.queue()
	b.held(second)
	c.held(third)
	b.giveUp(second)
	a.release(lease)
	c.grant(third)
}

// A grant counts from the ask that was answered, not from the first.
func grantAfterWaiting(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req := b.brief()
	req.Place = e.long
	b.held(req)
	time.Sleep(req.TTL * 2 / 3)
	a.release(lease)
	start := time.Now()
	granted := b.grant(req)
	_, at := c.untilGranted(c.request())
	e.notBefore(start, b.Traits().Trusted(granted.TTL), at, "granted to another")
}

func tellsHolder(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	a.renew(lease)
	held := b.held(b.request())
	if len(held.Holders) != 1 || held.Next != nil {
		e.Fatalf("holders %+v, next %+v; want one holder", held.Holders, held.Next)
	}
	h := held.Holders[0]
	if h.ID != lease.ID || h.Owner != a.owner || h.Token != lease.Token || h.State != backends.Holding || h.Mode != lease.Mode {
		e.Errorf("holder %+v, want %+v of %+v", h, lease, a.owner)
	}
	if e.h.Has&Dates != 0 && (held.AsOf.IsZero() || h.Granted.IsZero() || h.Renewed.Before(h.Granted) || !h.Expires.After(held.AsOf)) {
		e.Errorf("holder %+v as of %v lacks a date", h, held.AsOf)
	}
}

func countsLine(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	var first backends.Request
	for n := range 3 {
		c := e.client()
		req := c.queue()
		if held := c.held(req); held.Ahead != n || held.Waiters != n {
			e.Errorf("%d ahead of %d, want %d of %d", held.Ahead, held.Waiters, n, n)
		}
		if n == 0 {
			first = req
		}
	}
	if held := b.held(first); held.Ahead != 0 || held.Waiters != 2 {
		e.Errorf("the first has %d ahead of %d, want 0 of 2", held.Ahead, held.Waiters)
	}
	if held := b.held(b.request()); held.Ahead != 3 || held.Waiters != 3 {
		e.Errorf("without a place %d ahead of %d, want 3 of 3", held.Ahead, held.Waiters)
	}
}

// Those in the middle of the line neither.
func deadNotCounted(e *env) {
	a, b, c := e.trio()
	d := e.client()
	a.grant(a.request())
	first, dead, last := b.queue(), c.queue(), d.queue()
	dead.Place = e.h.TTL
	b.held(first)
	c.held(dead)
	d.held(last)
	d.untilGone(dead.ID)
	if held := d.held(last); held.Ahead != 1 || held.Waiters != 1 {
		e.Errorf("%d ahead of %d, want 1 of 1", held.Ahead, held.Waiters)
	}
}

func retryAfter(e *env) {
	a, b, _ := e.trio()
	before := time.Now()
	lease := a.grant(a.request())
	granted := time.Now()
	asked := time.Now()
	after := b.held(b.queue()).RetryAfter
	least := a.Traits().Trusted(lease.TTL) - time.Since(before)
	most := lease.TTL + e.h.Granularity - asked.Sub(granted)
	known := after != 0 || e.h.Has&Dates != 0
	if known && (after < least || after > most) {
		e.Errorf("RetryAfter %v, want %v to %v", after, least, most)
	}
}
