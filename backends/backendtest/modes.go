package backendtest

import (
	"fmt"
	"slices"
	"time"

	"flockd/backends"
)

// modeProperties are the ones that each mode has.
var modeProperties = slices.Concat(
	inEachMode("Frozen%sWaiterGoesToTheEnd", frozenWaiter),
	inSharingModes("%sHoldsHaveTheirOwnTTL", ownTTL),
)

// A mode makes requests that stand in line.
type mode func(c client) backends.Request

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
