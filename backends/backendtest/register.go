package backendtest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"flockd/backends"
)

var registerProperties = []property{
	{name: "RegisterAdmitsEqualAndLarger", needs: Registers, test: admitsLarger},
	{name: "RegisterRefusesStale", needs: Registers, test: refusesStale},
	{name: "RegisterKnowsResourcesApart", needs: Registers, test: resourcesApart},
	{name: "ResetLowersOnlyIfTold", needs: Registers, test: resetLowers},
	{name: "RegisterIsAtomic", needs: Registers, test: registerAtomic},
	{name: "RegisterRefusesNonsense", needs: Registers, test: registerRefusesNonsense},
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
	WantHighest(c.e, c.Backend, resource, want)
}

func admitsLarger(e *env) {
	a, b, _ := e.trio()
	_, err := a.register().Highest(e.Context(), e.key)
	e.is(err, backends.ErrNotFound, "Highest")
	a.admits(e.key, 5)
	b.admits(e.key, 5)
	b.admits(e.key, backends.MaxToken)
}

func refusesStale(e *env) {
	a, b, _ := e.trio()
	a.admits(e.key, 1<<40+7)
	err := b.register().Admit(e.Context(), e.key, 1<<40+6)
	var stale *backends.StaleError
	if !errors.As(err, &stale) || *stale != (backends.StaleError{Resource: e.key, Token: 1<<40 + 6, Highest: 1<<40 + 7}) {
		e.Errorf("Admit = %v (%+v), want a StaleError", err, stale)
	}
	b.highest(e.key, 1<<40+7)
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

// Whatever the order in which they come, the answers are those of one register.
func registerAtomic(e *env) {
	const clients, each = 8, 25
	var all sync.WaitGroup
	h := newHistory(e.key)
	for n := range clients {
		c := e.client()
		all.Go(func() {
			for i := range each {
				if err := h.ask(e.Context(), n, c.register(), admission{token: backends.Token(1 + i*clients + n)}); err != nil {
					e.Errorf("Admit = %v", err)
				}
			}
		})
	}
	all.Wait()
	e.client().highest(e.key, clients*each)
	h.check(e.T)
}

// What makes no sense is refused, with nothing done.
func registerRefusesNonsense(e *env) {
	a := e.client()
	for _, to := range []struct {
		resource string
		token    backends.Token
	}{
		{e.key, 0}, {e.key, -1}, {e.key, backends.MaxToken + 1}, {e.key, 1<<63 - 1}, {"", 1}, {"a\nb", 1},
		{strings.Repeat("x", backends.MaxKey+1), 1},
	} {
		e.is(a.register().Admit(e.Context(), to.resource, to.token), backends.ErrRefused, "Admit")
		e.is(a.register().Reset(e.Context(), to.resource, to.token, true), backends.ErrRefused, "Reset")
	}
	_, err := a.register().Highest(e.Context(), e.key)
	e.is(err, backends.ErrNotFound, "Highest")
}

// RegisterOf is the store's register, which it must have.
func RegisterOf(t testing.TB, b backends.Backend) backends.Register {
	t.Helper()
	r, ok := backends.As[backends.Register](b)
	if !ok {
		t.Fatal("the store has no register")
	}
	return r
}

// Admit must succeed.
func Admit(t testing.TB, b backends.Backend, resource string, token backends.Token) {
	t.Helper()
	if err := RegisterOf(t, b).Admit(t.Context(), resource, token); err != nil {
		t.Fatalf("Admit(%d) = %v", token, err)
	}
}

// ResetTo sets the highest token, which it may lower.
func ResetTo(t testing.TB, b backends.Backend, resource string, to backends.Token) {
	t.Helper()
	if err := RegisterOf(t, b).Reset(t.Context(), resource, to, true); err != nil {
		t.Fatalf("Reset(%d) = %v", to, err)
	}
}

// WantHighest holds the resource's highest token to want.
func WantHighest(t testing.TB, b backends.Backend, resource string, want backends.Token) {
	t.Helper()
	if token, err := RegisterOf(t, b).Highest(t.Context(), resource); err != nil || token != want {
		t.Errorf("Highest = %d, %v; want %d", token, err, want)
	}
}

// WantStale holds the answer to an Admit to be that highest came before.
func WantStale(t testing.TB, err error, highest backends.Token) {
	t.Helper()
	var stale *backends.StaleError
	if !errors.As(err, &stale) || stale.Highest != highest {
		t.Errorf("err = %v, want stale after %d", err, highest)
	}
}
