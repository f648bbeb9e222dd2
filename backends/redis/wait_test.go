package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// hears starts a Wait, has its listening broken, and wants it to hear the ring after.
func hears(t testing.TB, url, addr string, breaks func(direct *Store)) {
	t.Helper()
	holder, waiter, direct := open(t, url), open(t, url), open(t, "redis://"+addr)
	lease := acquire(t, holder, request("a"))
	place := queue("a")
	answer := held(t, waiter, place)
	over := make(chan error, 1)
	go func() { over <- waiter.Wait(soon(t, patience), answer) }()
	awaitInfo(t, direct, "clients", "blocked_clients:1")
	breaks(direct)
	awaitListening(t, direct, over)
	release(t, holder, lease)
	if err := <-over; err != nil {
		t.Errorf("Wait = %v", err)
	}
	acquire(t, waiter, place)
}

// awaitListening returns when somebody listens, unless the Wait is over.
func awaitListening(t testing.TB, direct *Store, over <-chan error) {
	t.Helper()
	await(t, "another listening", func() (string, bool) {
		select {
		case err := <-over:
			t.Fatalf("Wait = %v, and was deaf", err)
		default:
		}
		info := do(t, direct, "INFO", "clients").(string)
		return info, strings.Contains(info, "blocked_clients:1\r\n")
	})
}

// listener is the number of the client that listens.
func listener(t testing.TB, direct *Store) (id string) {
	t.Helper()
	for _, line := range strings.Split(do(t, direct, "CLIENT", "LIST").(string), "\n") {
		if strings.Contains(line, "cmd=blpop") {
			id, _, _ = strings.Cut(strings.TrimPrefix(line, "id="), " ")
		}
	}
	if id == "" {
		t.Fatal("nobody listens")
	}
	return id
}

// A listening that breaks is taken up again at once.
func TestWaitOutlastsItsConnection(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	t.Run("ended", func(t *testing.T) {
		hears(t, "redis://"+server.Addr, server.Addr, func(direct *Store) {
			do(t, direct, "CLIENT", "KILL", "ID", listener(t, direct))
		})
	})
	t.Run("unblocked", func(t *testing.T) {
		hears(t, "redis://"+server.Addr+"?prefix=b", server.Addr, func(direct *Store) {
			do(t, direct, "CLIENT", "UNBLOCK", listener(t, direct), "ERROR")
		})
	})
	t.Run("twice", func(t *testing.T) {
		x := servers.Proxy(t, server.Addr)
		s, direct := open(t, "redis://"+x.Addr+"?prefix=c"), open(t, "redis://"+server.Addr)
		acquire(t, s, request("a"))
		answer := held(t, s, queue("a"))
		over := make(chan error, 1)
		go func() { over <- s.Wait(soon(t, patience), answer) }()
		awaitInfo(t, direct, "clients", "blocked_clients:1")
		x.Refuse(true)
		x.Cut()
		wantTrouble(t, <-over, "connection refused")
	})
}

// Where nobody may listen, one attempt tells.
func TestWaitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, servers.Redis(t, "--rename-command", "BLPOP", "").Addr)
	s := open(t, "redis://"+x.Addr)
	acquire(t, s, request("a"))
	wantRefused(t, s.Wait(t.Context(), held(t, s, queue("a"))), "doesn't know a command")
	if n := x.Accepted(); n != 2 {
		t.Errorf("%d connections, want one to ask and one to listen", n)
	}
}

// A hold is watched over on the connection that its wait has listened on.
func TestWatchTakesTheEarOfTheWait(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	holder, waiter := open(t, "redis://"+server.Addr), open(t, "redis://"+x.Addr)
	lease := acquire(t, holder, request("a"))
	place := queue("a")
	answer := held(t, waiter, place)
	release(t, holder, lease)
	if err := waiter.Wait(soon(t, patience), answer); err != nil {
		t.Errorf("Wait = %v", err)
	}
	watching(t, waiter, acquire(t, waiter, place))
	awaitInfo(t, holder, "clients", "blocked_clients:1")
	if n := x.Accepted(); n != 2 {
		t.Errorf("%d connections, want one to ask and one to listen", n)
	}
}

// Whoever takes dead claims out of the line wakes those for whom that makes room, in
// front of the last of the dead too.
func TestRoomOfTheDead(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	sharing := func(place time.Duration) backends.Request {
		r := queue("a")
		r.Mode, r.Place = backends.Shared, place
		return r
	}
	dies, first := request("a"), sharing(time.Hour)
	dies.TTL = 2 * time.Second // others must have joined by then
	acquire(t, s, dies)
	answer := held(t, s, first)
	held(t, s, sharing(dies.TTL+time.Millisecond))
	await(t, "the end of two", func() (string, bool) {
		line := inspect(t, s, "a").Line
		return fmt.Sprint(line), len(line) == 1
	})
	acquire(t, s, sharing(0))
	if err := s.Wait(soon(t, patience), answer); err != nil {
		t.Errorf("Wait = %v", err)
	}
}

// A waiter that leaves the line wakes the one behind it, which would otherwise go by the
// time that the place of the one that left had.
func TestWaiterHearsThatTheOneInFrontLeft(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
		waiter := func(place time.Duration) backends.Request {
			r := queue(string(mode))
			if r.Mode, r.Place = mode, place; mode == backends.Slots {
				r.Slots = 2
			}
			return r
		}
		first := queue(string(mode))
		first.Place = time.Minute
		second, third := waiter(time.Hour), waiter(time.Hour)
		hold := request(string(mode))
		hold.TTL = time.Hour
		acquire(t, s, hold)
		held(t, s, first)
		held(t, s, second)
		wakes(t, s, third, "a waiter has left that is "+string(mode), func() {
			release(t, s, backends.Lease{Key: second.Key, ID: second.ID})
		})
		if answer := held(t, s, third); answer.RetryAfter > time.Minute {
			t.Errorf("%s: RetryAfter = %v", mode, answer.RetryAfter)
		}
	}
}

// wakes wants the Wait of a request that was held to end because of what is done.
func wakes(t testing.TB, s *Store, r backends.Request, what string, do func()) {
	t.Helper()
	answer := held(t, s, r)
	do()
	if err := s.Wait(soon(t, patience), answer); err != nil {
		t.Errorf("Wait after %s = %v", what, err)
	}
}

// A hold of a long lease and a short MinHold that is released ends sooner than those who
// wait for it were told.
func TestWaiterHearsThatAHoldCools(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := open(t, "redis://"+server.Addr)
	for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
		holder, waiter := request(string(mode)), queue(string(mode))
		holder.TTL, holder.MinHold = time.Hour, time.Minute
		if holder.Mode = mode; mode == backends.Slots {
			holder.Slots, waiter.Slots, waiter.Mode = 1, 1, mode
		}
		lease := acquire(t, s, holder)
		wakes(t, s, waiter, "the end of one that is "+string(mode), func() { release(t, s, lease) })
		if answer := held(t, s, waiter); answer.RetryAfter > time.Minute {
			t.Errorf("%s: RetryAfter = %v", mode, answer.RetryAfter)
		}
	}
}

// Whom to wake is told by the reply. Where that is lost, the next one tells.
func TestWaiterHearsThoughAReplyWasLost(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)

	lease := acquire(t, s, request("release"))
	wakes(t, direct, queue("release"), "a release", func() {
		again := func() error { return s.Release(t.Context(), lease.Key, lease.ID, backends.Outcome{}) }
		loses(t, x, releaseScript, again)
		isLost(t, again(), "the second release")
	})

	both := func(r backends.Request) backends.Request {
		r.Mode, r.Slots = backends.Slots, 2
		return r
	}
	other := request("slots")
	lease = acquire(t, direct, other)
	first, second := both(queue("slots")), both(queue("slots"))
	held(t, s, first)
	wakes(t, direct, second, "a grant", func() {
		release(t, direct, lease)
		again := func() error { _, err := s.Acquire(t.Context(), first); return err }
		loses(t, x, acquireScript, again)
		if err := again(); err != nil {
			t.Errorf("the second acquire: %v", err)
		}
	})
}

// Whoever waits for a slot behind one who is dead asks when that one's place ends, though
// a newcomer got a slot in between.
func TestRetryAfterIsOfTheWaiterInFront(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := open(t, "redis://"+server.Addr)
	slots := func() backends.Request {
		r := queue("a")
		r.Mode, r.Slots, r.TTL = backends.Slots, 2, time.Hour
		return r
	}
	lease := acquire(t, s, request("a"))
	held(t, s, slots())
	release(t, s, lease)
	acquire(t, s, slots())
	if answer := held(t, s, slots()); answer.RetryAfter > time.Minute {
		t.Errorf("RetryAfter = %v", answer.RetryAfter)
	}
}
