package backendtest

import (
	"slices"

	"flockd/backends"
)

var sharedProperties = []property{
	{name: "SharedHoldTogether", needs: SharedHolds, test: sharedTogether},
	{name: "SharedExcludeExclusive", needs: SharedHolds, test: sharedExclude},
	{name: "ExclusiveExcludesShared", needs: SharedHolds, test: excludesShared},
	{name: "WaitingExclusiveStopsLaterShared", needs: SharedHolds, test: notStarved},
	{name: "SharedBehindAnExclusiveStartTogether", needs: SharedHolds, test: startTogether},
	{name: "TokensGrowInTheOrderOfGrants", needs: SharedHolds, test: growInOrder},
	{name: "AllSharedHoldersAreNamed", needs: SharedHolds, test: allNamed},
	{name: "EndedSharedStopsNoExclusive", needs: SharedHolds, test: endedShared},
	{name: "ClaimStaysOfItsMode", needs: SharedHolds, test: staysOfMode},
	{name: "LastRunIsTheLastToEnd", needs: SharedHolds, test: lastToEnd},
	{name: "MixedLineIsToldAsItIs", needs: SharedHolds, test: mixedLine},
	{name: "SharedFitsBesideACoolingShared", needs: SharedHolds | MinHolds, test: besideCooling},
}

func (c client) shared() backends.Request { return c.mode(backends.Shared, 0) }

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
	passing := c.shared()
	passing.Place = 0
	c.held(passing)
	a.release(lease)
	c.held(later)
	b.grant(exclusive)
}

// backwards has two wait to share what an exclusive one holds, who then goes. They take
// their turns in the opposite order.
func (e *env) backwards() (held, earlier, later backends.Lease) {
	e.Helper()
	a, b, c := e.trio()
	held = a.grant(a.request())
	first, second := b.shared(), c.shared()
	b.held(first)
	c.held(second)
	a.release(held)
	earlier = c.grant(second)
	return held, earlier, b.grant(first)
}

// The second need not wait until the first has taken its turn.
func startTogether(e *env) { e.backwards() }

func growInOrder(e *env) {
	held, earlier, later := e.backwards()
	e.above(earlier.Token, held.Token)
	e.above(later.Token, earlier.Token)
}

func allNamed(e *env) {
	a, b, c := e.trio()
	want := []backends.Request{a.shared(), b.shared(), c.shared()}
	for i, holder := range []client{a, b, c} {
		holder.grant(want[i])
	}
	for _, req := range []backends.Request{a.queue(), a.shared()} {
		held := a.held(req)
		named := func(claim backends.Claim, req backends.Request) bool { return claim.ID == req.ID }
		if !slices.EqualFunc(held.Holders, want, named) || held.Next != nil {
			e.Errorf("holders %+v, next %+v; want %+v", held.Holders, held.Next, want)
		}
	}
}

func mixedLine(e *env) {
	a, b, c := e.trio()
	line := []backends.Request{a.shared(), b.shared(), c.queue(), a.shared(), b.shared(), c.queue()}
	a.grant(line[0])
	b.grant(line[1])
	for i, req := range line[2:] {
		if held := a.held(req); held.Ahead != i || held.Waiters != i {
			e.Errorf("%d ahead of %d, want %d of %d", held.Ahead, held.Waiters, i, i)
		}
	}
	a.lineIs(line...)
	if held := a.held(line[3]); held.Ahead != 1 || held.Waiters != 3 {
		e.Errorf("the second has %d ahead of %d, want 1 of 3", held.Ahead, held.Waiters)
	}
}

func besideCooling(e *env) {
	a, b, c := e.trio()
	req := a.shared()
	req.MinHold = e.long
	a.release(a.grant(req))
	b.grant(b.shared())
	c.held(c.request())
}

// One that isn't in front ends by itself, before the first does.
func endedShared(e *env) {
	a, b, c := e.trio()
	first := a.grant(a.shared())
	brief := b.shared()
	brief.TTL = e.h.TTL
	b.grant(brief)
	req := c.queue()
	c.held(req)
	c.untilGone(brief.ID)
	if held := c.held(req); len(held.Holders) != 1 || held.Holders[0].ID != first.ID {
		e.Errorf("holders %+v, want %s", held.Holders, first.ID)
	}
	a.release(first)
	c.grant(req)
}

// What an ID first asked for is what it waits for and holds.
func staysOfMode(e *env) {
	a, b, _ := e.trio()
	holds, waits := a.shared(), b.queue()
	lease := a.grant(holds)
	b.held(waits)
	holds.Mode, waits.Mode = backends.Exclusive, backends.Shared
	if lease, err := b.Acquire(e.Context(), waits); err == nil {
		e.Errorf("granted %+v beside a shared hold", lease)
	}
	if again := a.grant(holds); again.Token != lease.Token {
		e.Errorf("lease %+v when asked again, %+v before", again, lease)
	}
	for i, want := range []backends.Mode{backends.Shared, backends.Exclusive} {
		if line := a.status().Line; len(line) != 2 || line[i].Mode != want {
			e.Errorf("line %+v, want claim %d %s", line, i, want)
		}
	}
}

// Not the one with the largest token.
func lastToEnd(e *env) {
	a, b, _ := e.trio()
	first, second := a.grant(a.shared()), b.grant(b.shared())
	b.releaseWith(second, failed)
	a.releaseWith(first, succeeded)
	e.isRun("last run", b.status().Last, a, first, succeeded)
}
