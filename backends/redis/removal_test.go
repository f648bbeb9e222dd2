package redis

import (
	"errors"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

func ask(t testing.TB, s *Store, r backends.Request, notice backends.Notice) {
	t.Helper()
	if err := s.Ask(t.Context(), r.Key, r.ID, notice); err != nil {
		t.Fatalf("Ask = %v", err)
	}
}

// wantRemoved wants the notice as the answer to all that is asked for the ID.
func wantRemoved(t testing.TB, s *Store, r backends.Request, notice backends.Notice) {
	t.Helper()
	lease := backends.Lease{Key: r.Key, ID: r.ID, TTL: r.TTL, Run: "v42"}
	_, acquired := s.Acquire(t.Context(), r)
	_, renewed := s.Renew(t.Context(), lease)
	for what, err := range map[string]error{
		"Acquire": acquired, "Renew": renewed, "Complete": s.Complete(t.Context(), lease),
		"Release": s.Release(t.Context(), r.Key, r.ID, backends.Outcome{}),
	} {
		var removed *backends.RemovedError
		if !errors.As(err, &removed) || removed.Notice != notice {
			t.Errorf("%s = %v, want that it was removed by %+v", what, err, notice)
		}
	}
}

// Who was removed, or asked to leave, hears why, also when its claim has long ended.
func TestRemovedIsTold(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	s := open(t, "redis://"+clock.Redis(t).Addr)
	force := backends.Notice{Kind: backends.Break, Reason: "force", Force: true}
	asked := backends.Notice{Kind: backends.Supersede, By: backends.Owner{User: "u"}, Reason: "newer"}

	holder := request("a")
	acquire(t, s, holder)
	leaves, stays, removed := queue("a"), queue("a"), queue("a")
	for _, r := range []backends.Request{leaves, stays, removed} {
		held(t, s, r)
	}
	ask(t, s, holder, force)
	wantRemoved(t, s, holder, force)
	ask(t, s, removed, force)
	wantRemoved(t, s, removed, force)

	ask(t, s, leaves, asked)
	if got := held(t, s, leaves).Notice; got != asked {
		t.Errorf("notice %+v, want %+v", got, asked)
	}
	release(t, s, backends.Lease{Key: "a", ID: leaves.ID})
	wantRemoved(t, s, leaves, asked)

	ask(t, s, stays, asked)
	clock.Step(2 * stays.Place)
	wantRemoved(t, s, stays, asked)
	if line := inspect(t, s, "a").Line; len(line) > 0 {
		t.Errorf("line %+v, want none", line)
	}
}

// Of whoever was just released, nobody says that it was removed.
func TestReleasedWasNotRemoved(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	r := request("a")
	release(t, s, acquire(t, s, r))
	_, err := s.Acquire(t.Context(), r)
	var removed *backends.RemovedError
	if isLost(t, err, "Acquire"); errors.As(err, &removed) {
		t.Errorf("Acquire = %v", err)
	}
}

// An operator whose answer was lost asks again: nothing is new, and those hear of it who
// were to hear the first time.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)
	twice := func(r backends.Request, notice backends.Notice, meanwhile func()) {
		again := func() error { return s.Ask(t.Context(), r.Key, r.ID, notice) }
		loses(t, x, askScript, again)
		meanwhile()
		if err := again(); err != nil {
			t.Errorf("the second Ask = %v", err)
		}
	}
	force := backends.Notice{Kind: backends.Break, Force: true}

	holder, first := request("a"), queue("a")
	acquire(t, direct, holder)
	wakes(t, direct, first, "the removal of a hold", func() { twice(holder, force, func() {}) })

	lease := acquire(t, direct, first)
	second, third := queue("a"), queue("a")
	held(t, direct, second)
	held(t, direct, third)
	wakes(t, direct, second, "a notice", func() { twice(second, backends.Notice{Kind: backends.Break}, func() {}) })
	release(t, direct, lease)
	twice(second, force, func() { acquire(t, direct, third) })
	wantRemoved(t, direct, second, force)

	err := s.Ask(t.Context(), "a", second.ID, backends.Notice{Kind: backends.Break})
	if !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("Ask of what was removed = %v, want %v", err, backends.ErrNotFound)
	}
}
