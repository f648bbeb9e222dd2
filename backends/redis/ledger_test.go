package redis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

func once(key, run string) backends.Request {
	r := queue(key)
	r.Once = &backends.Once{ID: run}
	return r
}

func complete(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	if err := s.Complete(t.Context(), lease); err != nil {
		t.Fatalf("Complete = %v", err)
	}
}

// succeeds completes a run of key, which it keeps for that long.
func succeeds(t testing.TB, s *Store, key, run string, keep time.Duration) {
	t.Helper()
	r := once(key, run)
	r.Once.Keep = keep
	lease := acquire(t, s, r)
	complete(t, s, lease)
	release(t, s, lease)
}

func runs(t testing.TB, s *Store, key string) (all []string) {
	t.Helper()
	for e, err := range s.Entries(t.Context(), key) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Run)
	}
	return all
}

// The period is that of the server's clock, however far ours is off: then it takes one
// more question, the first time.
func TestServerPicksTheRun(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	server := clock.Redis(t)
	for _, step := range []time.Duration{0, 40 * 24 * time.Hour, -100 * 24 * time.Hour} {
		clock.Step(step)
		for _, p := range []backends.Period{
			{Unit: backends.Fixed, Every: time.Hour}, {Unit: backends.Day}, {Unit: backends.Week}, {Unit: backends.Month},
		} {
			s, r := open(t, "redis://"+server.Addr), request(backends.NewID())
			r.Once = &backends.Once{Per: p, Lead: 30 * time.Second, Zone: time.FixedZone("", 3600)}
			lease := acquire(t, s, r)
			fresh, again := open(t, "redis://"+server.Addr), request(r.Key)
			again.Once = r.Once
			held(t, fresh, again)
			complete(t, s, lease)
			if _, err := fresh.Acquire(t.Context(), again); !errors.Is(err, backends.ErrDone) {
				t.Errorf("%+v, %v on: %v, want that it is done", p, step, err)
			}
			if want := r.Once.RunAt(lease.Granted); lease.Run != want || lease.Keep != r.Once.KeepFor() {
				t.Errorf("%+v, %v on: run %q kept for %v, want %q for %v", p, step, lease.Run, lease.Keep, want, r.Once.KeepFor())
			}
		}
	}
}

// Completed runs are read in pages, and stay in order though the clock is set back.
func TestEntriesInPages(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	s := open(t, "redis://"+clock.Redis(t).Addr)
	lease := acquire(t, s, request("a"))
	var want []string
	for n := range 2100 {
		if n == 1500 {
			clock.Step(-time.Hour)
		}
		lease.Run = fmt.Sprint(n * 7919 % 2100)
		complete(t, s, lease)
		want = append(want, lease.Run)
	}
	if got := runs(t, s, "a"); !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d in their order", len(got), len(want))
	}
}

// A completed run has no TTL, so that no policy evicts it first and it outlasts the
// key's own record; one whose time is over goes with the next.
func TestCompletedRunsStay(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	succeeds(t, s, "a", "brief", time.Millisecond)
	succeeds(t, s, "a", "kept", 0)
	succeeds(t, s, "a", "long", time.Hour)
	ledger := s.to.prefix.keys("a", "x")[6:]
	for _, name := range ledger {
		if ttl := do(t, s, "PTTL", name); ttl != int64(-1) {
			t.Errorf("%s has a TTL of %d ms", name, ttl)
		}
	}
	await(t, "the brief one to be forgotten", func() (string, bool) {
		all := runs(t, s, "a")
		return fmt.Sprint(all), slices.Equal(all, []string{"kept", "long"})
	})
	succeeds(t, s, "a", "next", 0)
	if n := do(t, s, "HLEN", ledger[0]); n != int64(3) {
		t.Errorf("%d runs are kept", n)
	}
	if n := do(t, s, "ZCARD", ledger[2]); n != int64(1) {
		t.Errorf("%d runs are kept for a time", n)
	}
	lease, waiter := acquire(t, s, once("a", "v42")), once("a", "v42")
	held(t, s, waiter)
	complete(t, s, lease)
	release(t, s, lease)
	if _, err := s.Acquire(t.Context(), waiter); !errors.Is(err, backends.ErrDone) {
		t.Errorf("Acquire = %v, want that it is done", err)
	}
	if ttl := do(t, s, "PTTL", s.to.prefix.part("a", "key")).(int64); ttl < 0 {
		t.Errorf("the key's own record has a TTL of %d ms though nobody is in line", ttl)
	}
	do(t, s, "DEL", s.to.prefix.part("a", "key"))
	if _, err := s.Acquire(t.Context(), once("a", "kept")); !errors.Is(err, backends.ErrDone) {
		t.Errorf("Acquire = %v, want that it is done", err)
	}
}

// A reply that was lost costs nothing: to complete again changes nothing, and still
// tells those who wait.
func TestLostRepliesOfTheLedger(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)
	r := once("a", "v42")
	loses(t, x, acquireScript, func() error { _, err := s.Acquire(t.Context(), r); return err })
	lease := acquire(t, s, r)
	if lease.Run != "v42" {
		t.Errorf("run %q after a lost grant", lease.Run)
	}
	answer := held(t, direct, once("a", "v42"))
	loses(t, x, completeScript, func() error { return s.Complete(t.Context(), lease) })
	entry, err := direct.Completed(t.Context(), "a", "v42")
	if err != nil {
		t.Fatal(err)
	}
	complete(t, s, lease)
	if again, err := direct.Completed(t.Context(), "a", "v42"); err != nil || again != entry {
		t.Errorf("%+v, %v after %+v", again, err, entry)
	}
	if err := direct.Wait(soon(t, patience), answer); err != nil {
		t.Errorf("Wait = %v", err)
	}
	loses(t, x, forgetScript, func() error { return s.Forget(t.Context(), "a", "v42") })
	if err := s.Forget(t.Context(), "a", "v42"); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("Forget again = %v", err)
	}
}

// A slot whose grant had no answer is found again.
func TestLostSlot(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s := open(t, "redis://"+x.Addr)
	r := queue("a")
	r.Mode, r.Slots = backends.Slots, 3
	other := r
	other.ID = backends.NewID()
	acquire(t, s, other)
	loses(t, x, acquireScript, func() error { _, err := s.Acquire(t.Context(), r); return err })
	if lease := acquire(t, s, r); lease.Slot != 1 {
		t.Errorf("slot %d, want 1", lease.Slot)
	}
}

// A newer record of a completed run is refused, and its run not done again.
func TestNewerEntry(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	do(t, s, "HSET", s.to.prefix.part("a", "done"), "v42", `{"v":3}`)
	do(t, s, "ZADD", s.to.prefix.part("a", "order"), 1, "v42")
	_, err := s.Acquire(t.Context(), once("a", "v42"))
	wantRefused(t, err, "record version 3")
	_, err = s.Completed(t.Context(), "a", "v42")
	wantRefused(t, err, "record version 3")
	for _, err := range s.Entries(t.Context(), "a") {
		wantRefused(t, err, "record version 3")
	}
}
