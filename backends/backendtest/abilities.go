package backendtest

import (
	"flockd/backends"
)

var abilityProperties = []property{
	{name: "InterfacesAsListed", test: interfaces},
	{name: "WhatIsNotListedIsRefused", test: refuses},
}

func interfaces(e *env) {
	b := e.client().Backend
	var found Ability
	if _, ok := backends.As[backends.Waiter](b); ok {
		found |= Waits
	}
	if _, ok := backends.As[backends.Register](b); ok {
		found |= Registers
	}
	if _, ok := backends.As[backends.Ledger](b); ok {
		found |= Ledgers
	}
	if listed := e.h.Has & (Waits | Registers | Ledgers); found != listed {
		e.Errorf("found %b, but %b is listed", found, listed)
	}
}

// What a store can't do it refuses, with nothing done.
func refuses(e *env) {
	a := e.client()
	shared, slots, cools, once := a.mode(backends.Shared, 0), a.mode(backends.Slots, 2), a.queue(), a.queue()
	cools.MinHold = e.long
	once.Once = &backends.Once{ID: "v42"}
	for ability, req := range map[Ability]backends.Request{SharedHolds: shared, SlotHolds: slots, MinHolds: cools, Ledgers: once} {
		if e.h.Has&ability == 0 {
			a.acquireIs(backends.ErrRefused, req)
		}
	}
	if line := a.status().Line; len(line) > 0 {
		e.Errorf("a refused request left %+v", line)
	}
}
