package backendtest

import (
	"errors"
	"sync"

	"flockd/backends"
)

var registerProperties = []property{
	{name: "RegisterAdmitsEqualAndLarger", needs: Registers, test: admitsLarger},
	{name: "RegisterRefusesStale", needs: Registers, test: refusesStale},
	{name: "RegisterKnowsResourcesApart", needs: Registers, test: resourcesApart},
	{name: "ResetLowersOnlyIfTold", needs: Registers, test: resetLowers},
	{name: "RegisterIsAtomic", needs: Registers, test: registerAtomic},
}

func (c client) register() backends.Register {
	register, _ := backends.As[backends.Register](c.Backend)
	return register
}

// admits must succeed, and leave token as the highest.
func (c client) admits(resource string, token backends.Token) {
	c.e.Helper()
	if err := c.register().Admit(c.e.Context(), resource, token); err != nil {
		c.e.Errorf("Admit(%d) = %v", token, err)
	}
	c.highest(resource, token)
}

func (c client) highest(resource string, want backends.Token) {
	c.e.Helper()
	if token, err := c.register().Highest(c.e.Context(), resource); err != nil || token != want {
		c.e.Errorf("Highest = %d, %v; want %d", token, err, want)
	}
}

func admitsLarger(e *env) {
	a, b, _ := e.trio()
	_, err := a.register().Highest(e.Context(), e.key)
	e.is(err, backends.ErrNotFound, "Highest")
	a.admits(e.key, 5)
	b.admits(e.key, 5)
	b.admits(e.key, 1<<53-1)
}

func refusesStale(e *env) {
	a, b, _ := e.trio()
	a.admits(e.key, 7)
	err := b.register().Admit(e.Context(), e.key, 6)
	var stale *backends.StaleError
	if !errors.As(err, &stale) || *stale != (backends.StaleError{Resource: e.key, Token: 6, Highest: 7}) {
		e.Errorf("Admit = %v (%+v), want a StaleError", err, stale)
	}
	b.highest(e.key, 7)
}

func resourcesApart(e *env) {
	a := e.client()
	a.admits(e.key, 7)
	a.admits(e.key+"/b", 1)
	a.admits(e.key+"%2Fb", 2)
	a.highest(e.key, 7)
	a.highest(e.key+"/b", 1)
}

func resetLowers(e *env) {
	a := e.client()
	reset := func(to backends.Token, down bool) error { return a.register().Reset(e.Context(), e.key, to, down) }
	if err := reset(7, false); err != nil {
		e.Errorf("Reset of a new resource = %v", err)
	}
	e.is(reset(5, false), backends.ErrStale, "Reset")
	a.highest(e.key, 7)
	if err := reset(5, true); err != nil {
		e.Errorf("Reset down = %v", err)
	}
	a.admits(e.key, 6)
}

// Whatever the order in which they come, the largest stays.
func registerAtomic(e *env) {
	const clients, tokens = 8, 25
	var all sync.WaitGroup
	for n := range clients {
		c := e.client()
		all.Go(func() {
			for i := range tokens {
				token := backends.Token(1 + i*clients + n)
				err := c.register().Admit(e.Context(), e.key, token)
				if err != nil && !errors.Is(err, backends.ErrStale) {
					e.Errorf("Admit(%d) = %v", token, err)
				}
			}
		})
	}
	all.Wait()
	e.client().highest(e.key, clients*tokens)
}
