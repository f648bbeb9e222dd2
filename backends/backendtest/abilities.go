package backendtest

import (
	"time"

	"flockd/backends"
)

var abilityProperties = []property{
	{name: "InterfacesAsListed", test: interfaces},
	{name: "WhatIsNotListedIsRefused", test: refuses},
	{name: "NonsenseIsRefused", test: refusesNonsense},
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
	if _, ok := backends.As[backends.Watcher](b); ok {
		found |= Watches
	}
	if listed := e.h.Has & (Waits | Registers | Ledgers | Watches); found != listed {
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

// What makes no sense is refused, with nothing done.
func refusesNonsense(e *env) {
	a := e.client()
	for _, spoil := range []func(*backends.Request){
		func(r *backends.Request) { r.Key = "" },
		func(r *backends.Request) { r.Key = "a\nb" },
		func(r *backends.Request) { r.ID = "" },
		func(r *backends.Request) { r.TTL = 0 },
		func(r *backends.Request) { r.Mode = "" },
		func(r *backends.Request) { r.Mode, r.Slots = backends.Slots, 0 },
		func(r *backends.Request) { r.Slots = 2 },
		func(r *backends.Request) { r.Place = -time.Second },
		func(r *backends.Request) { r.MinHold = -time.Second },
		func(r *backends.Request) { r.Once = &backends.Once{} },
		func(r *backends.Request) { r.Once = &backends.Once{Per: backends.Period{Unit: "year"}} },
		func(r *backends.Request) { r.Once = &backends.Once{ID: "v42", Keep: -time.Second} },
		func(r *backends.Request) { r.Once = &backends.Once{ID: "a\nb"} },
		func(r *backends.Request) {
			r.Once = &backends.Once{Per: backends.Period{Unit: backends.Fixed, Every: 7 * time.Hour}}
		},
		func(r *backends.Request) { r.Mode, r.Once = backends.Shared, &backends.Once{ID: "v42"} },
	} {
		req := a.request()
		spoil(&req)
		a.acquireIs(backends.ErrRefused, req)
	}
	if line := a.status().Line; len(line) > 0 {
		e.Errorf("a refused request left %+v", line)
	}
}
