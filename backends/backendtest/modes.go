package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"flockd/backends"
)

// modeProperties are the ones that each mode has.
var modeProperties = slices.Concat(
	inEachMode("Frozen%sWaiterGoesToTheEnd", frozenWaiter),
	inEachMode("%sClaimIsOneThoughAskedForTwiceAtOnce", askedAtOnce),
	inEachMode("%sReleaseAndGrantDoNotPassEachOther", releaseRacesGrant),
	inEachMode("%sTurnGivenUpPassesOn", turnPassesOn),
	inSharingModes("%sHoldsHaveTheirOwnTTL", ownTTL),
	inSharingModes("%sIDIsForbiddenOnceReleased", forbidden),
	inSharingModes("%sLeaseSaysWhatWasGranted", sharingLeaseTells),
	inSharingModes("%sHolderThatAsksAgainKeepsItsLease", keepsLease),
	inSharingModes("%sTakesNoPlaceUnlessAsked", sharingNoPlace),
	inSharingModes("%sNoticeIsForOneHolder", noticeForOneHolder),
	inSharingModes("%sRemovalLeavesTheOthers", removalLeaves),
	inSharingModes("DeadExclusiveStopsNoLater%s", deadExclusive),
)

// A mode makes requests that stand in line.
type mode func(c client) backends.Request

// Properties are one a mode where a store may treat each in its own way.
var modes = []struct {
	name  string
	needs Ability
	ask   mode
}{
	{"Exclusive", 0, client.queue},
	{"Shared", SharedHolds, client.shared},
	{"Slot", SlotHolds, func(c client) backends.Request { return c.slots(3) }},
}

// inEachMode is one property a mode.
func inEachMode(name string, test func(e *env, ask mode)) (all []property) {
	for _, m := range modes {
		all = append(all, property{name: fmt.Sprintf(name, m.name), needs: m.needs, test: func(e *env) { test(e, m.ask) }})
	}
	return all
}

// inSharingModes is one property a mode that has several holders.
func inSharingModes(name string, test func(e *env, ask mode)) []property {
	return inEachMode(name, test)[1:]
}

// A waiter that wakes after its place has ended neither gets the key nor moves anyone.
func frozenWaiter(e *env, ask mode) {
	a, b, c := e.trio()
	d := e.client()
	lease := a.grant(a.request())
	frozen, second, third := ask(b), c.queue(), d.queue()
	frozen.Place = e.h.TTL
	b.held(frozen)
	c.held(second)
	c.untilGone(frozen.ID)
	a.release(lease)
	lease = c.grant(second)
	d.held(third)
	frozen.Place = e.long
	b.held(frozen)
	b.lineIs(second, third, frozen)
	c.renew(lease)
	c.release(lease)
	b.held(frozen)
	d.grant(third)
}

// Neither who came before, nor who comes after, nor who waits, nor another's renewal
// makes a hold longer or shorter.
func ownTTL(e *env, ask mode) {
	a, b, c := e.trio()
	first := a.grant(ask(a))
	brief := ask(b)
	brief.TTL = e.h.TTL
	start := time.Now()
	lease := b.grant(brief)
	last := c.grant(ask(c))
	contender := c.queue()
	contender.TTL = e.h.TTL / 2
	c.held(contender)
	e.until("the claim is gone", func() bool {
		a.renew(first)
		return a.inLine(lease.ID) == nil
	})
	e.notBefore(start, b.Traits().Trusted(brief.TTL), time.Now(), "gone")
	c.renew(last)
}

// Known or not, holding or waiting; and an acquire that is on its way can't come back.
func forbidden(e *env, ask mode) {
	a, b, _ := e.trio()
	unknown, holds, waits := ask(a), ask(a), ask(b)
	a.releaseIsLost(e.key, unknown.ID)
	a.acquireIs(backends.ErrLost, unknown)
	a.release(a.grant(holds))
	a.acquireIs(backends.ErrLost, holds)
	a.grant(a.request())
	b.held(waits)
	b.giveUp(waits)
	b.acquireIs(backends.ErrLost, waits)
	if line := a.status().Line; len(line) != 1 {
		e.Errorf("line %+v, want the holder alone", line)
	}
}

// A client that got no answer asks again while its first question is still on its way.
func askedAtOnce(e *env, ask mode) {
	a := e.client()
	for round := range 5 {
		req := ask(a)
		var leases [2]backends.Lease
		var errs [2]error
		ask := func(i int) func() {
			return func() { leases[i], errs[i] = a.Acquire(e.Context(), req) }
		}
		e.atOnce(round, ask(0), ask(1))
		e.is(errors.Join(errs[:]...), nil, "Acquire")
		if leases[0].Token != leases[1].Token || leases[0].Slot != leases[1].Slot {
			e.Errorf("leases %+v and %+v, want the same", leases[0], leases[1])
		}
		a.lineIs(req)
		a.release(leases[0])
	}
}

// atOnce runs both at the same time; which is begun first alternates with the rounds.
func (e *env) atOnce(round int, f, g func()) {
	var both sync.WaitGroup
	if round%2 > 0 {
		f, g = g, f
	}
	both.Go(f)
	both.Go(g)
	both.Wait()
}

// Whichever comes first, nothing of the claim is left.
func releaseRacesGrant(e *env, ask mode) {
	a := e.client()
	for round := range 10 {
		req := ask(a)
		e.atOnce(
			round,
			func() { a.Acquire(e.Context(), req) },
			func() { a.Release(e.Context(), req.Key, req.ID, backends.Outcome{}) },
		)
		a.lineIs()
	}
}

// The first in line is woken by a release, and gives up instead of taking its turn.
func turnPassesOn(e *env, ask mode) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	first, second := ask(b), ask(c)
	b.held(first)
	held := c.held(second)
	a.release(lease)
	if e.h.Has&Waits == 0 {
		b.giveUp(first)
	} else {
		wait := c.wait(held)
		b.giveUp(first)
		wait.returns()
	}
	c.grant(second)
}

func sharingLeaseTells(e *env, ask mode) {
	a, b, _ := e.trio()
	a.grant(ask(a))
	req := ask(b)
	lease := b.grant(req)
	want := backends.Lease{
		Key: req.Key, ID: req.ID, Token: lease.Token, Mode: req.Mode, Slot: min(1, req.Slots), TTL: req.TTL, Granted: lease.Granted,
	}
	if lease != want {
		e.Errorf("lease %+v, want %+v", lease, want)
	}
	shown := backends.Claim{
		ID: req.ID, State: backends.Holding, Mode: req.Mode, Slots: req.Slots, Slot: lease.Slot, Token: lease.Token, Owner: b.owner,
	}
	if claim := a.inLine(req.ID); claim == nil || undated(*claim) != shown {
		e.Errorf("shown as %+v, want %+v", claim, shown)
	}
}

// Its reply may have been lost; who waits by now changes nothing.
func keepsLease(e *env, ask mode) {
	a, b, c := e.trio()
	first := a.grant(ask(a))
	req := ask(b)
	req.TTL = e.long / 2
	lease := b.grant(req)
	c.held(c.queue())
	a.release(first)
	req.TTL = e.long
	if again := b.grant(req); again.Token != lease.Token || again.Slot != lease.Slot || again.TTL != req.TTL {
		e.Errorf("lease %+v when asked again, %+v before", again, lease)
	}
}

func sharingNoPlace(e *env, ask mode) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := ask(b)
	req.Place = 0
	b.held(req)
	if line := a.status().Line; len(line) != 1 {
		e.Errorf("line %+v, want the holder alone", line)
	}
}

func noticeForOneHolder(e *env, ask mode) {
	a, b, c := e.trio()
	leases := []backends.Lease{a.grant(ask(a)), a.grant(ask(a)), b.grant(ask(b))}
	notice := c.notice(backends.Resign)
	c.ask(leases[1].ID, notice)
	for i, lease := range leases {
		want := backends.Notice{}
		if i == 1 {
			want = notice
		}
		if got := a.renew(lease).Notice; got != want {
			e.Errorf("holder %d got the notice %+v, want %+v", i, got, want)
		}
	}
}

func removalLeaves(e *env, ask mode) {
	a, b, c := e.trio()
	leases := []backends.Lease{a.grant(ask(a)), b.grant(ask(b)), c.grant(ask(c))}
	c.removes(leases[1])
	a.renew(leases[0])
	b.renewIsLost(leases[1])
	c.renew(leases[2])
	c.held(c.request())
	c.grant(ask(c))
}

// Neither one that waits behind it, nor one that comes.
func deadExclusive(e *env, ask mode) {
	a, b, c := e.trio()
	d := e.client()
	lease := a.grant(a.request())
	first, dead, behind := ask(b), c.queue(), ask(d)
	dead.Place = e.h.TTL
	b.held(first)
	c.held(dead)
	d.held(behind)
	a.release(lease)
	b.grant(first)
	e.ended(dead.Place)
	d.grant(behind)
	c.grant(ask(c))
}
