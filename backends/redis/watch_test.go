package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// watching starts a Watch, which the end of the test ends.
func watching(t testing.TB, s *Store, lease backends.Lease) (over <-chan error) {
	done := make(chan error, 1)
	go func() { done <- s.Watch(t.Context(), lease) }()
	return done
}

// hold is a request whose Watch looks often.
func hold(key string) backends.Request {
	r := request(key)
	r.TTL = 10 * time.Second
	return r
}

var resign = backends.Notice{Kind: backends.Resign, Reason: "the host is to be restarted"}

// returns wants a Watch to end by itself before it would look without a reason.
func returns(t testing.TB, over <-chan error) {
	t.Helper()
	select {
	case err := <-over:
		if err != nil {
			t.Errorf("Watch = %v", err)
		}
	case <-time.After(listenAtMost * 2 / 3):
		t.Error("Watch has not returned")
	}
}

// A watch whose connection breaks goes on, with another one, and looks in between: a ring
// may have gone with the first.
func TestWatchOutlastsItsConnection(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	a, b := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr)
	t.Run("silent", func(t *testing.T) {
		r := hold("a")
		over := watching(t, a, acquire(t, a, r))
		awaitInfo(t, b, "clients", "blocked_clients:1")
		do(t, b, "CLIENT", "KILL", "ID", listener(t, b))
		awaitListening(t, b, over)
		ask(t, b, r, resign)
		returns(t, over)
	})
	t.Run("with a ring", func(t *testing.T) {
		r := hold("b")
		over := watching(t, a, acquire(t, a, r))
		awaitInfo(t, b, "clients", "blocked_clients:1")
		if _, err := b.run(t.Context(), askScript, r.Key, r.ID, 0, 1000, 1000, encode(resign), false, false, ""); err != nil {
			t.Fatal(err)
		}
		do(t, b, "CLIENT", "KILL", "ID", listener(t, b))
		returns(t, over)
	})
}

// A ring that is old, or for nothing, makes it look and listen on.
func TestWatchOutlastsARing(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	a, b := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr)
	r := hold("a")
	lease := acquire(t, a, r)
	ask(t, b, r, resign)
	renew(t, a, lease)
	over := watching(t, a, lease)
	awaitListening(t, b, over)
	if n := do(t, b, "EXISTS", a.to.prefix.bell(r.Key, r.ID)); n != int64(0) {
		t.Errorf("%v bells with a ring, though somebody listens", n)
	}
	ask(t, b, r, resign) // the same again
	returns(t, over)
}

// Where nobody may listen, a watch tries once, and then looks.
func TestWatchWithoutListening(t *testing.T) {
	t.Parallel()
	x := servers.Proxy(t, servers.Redis(t, "--rename-command", "BLPOP", "").Addr)
	a, b := open(t, "redis://"+x.Addr), open(t, "redis://"+x.Addr)
	r := hold("a")
	r.TTL = time.Minute / 2 // looks every second
	lease := acquire(t, a, r)
	accepted, trips := x.Accepted(), x.Trips()
	over := watching(t, a, lease)
	await(t, "looks", func() (string, bool) { return "", x.Trips() > trips+5 }) // to look, and to listen, are two
	if n := x.Accepted() - accepted; n > 2 {
		t.Errorf("%d connections to listen, and to look", n)
	}
	ask(t, b, r, resign)
	returns(t, over)
}

// A watch that was given up is over at the server too, frozen or not.
func TestAbandonedWatch(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	a, b := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr)
	lease := acquire(t, a, hold("a"))
	for _, frozen := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- a.Watch(ctx, lease) }()
		awaitInfo(t, b, "clients", "blocked_clients:1")
		if frozen {
			server.Freeze()
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
		if frozen {
			server.Thaw()
		}
		awaitInfo(t, b, "clients", "blocked_clients:0")
	}
}

// Whoever leaves a notice for a hold, or removes it, rings for it.
func TestNoticeToAHoldRings(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := open(t, "redis://"+server.Addr)
	r := request("a")
	acquire(t, s, r)
	seen := watch(t, server.Addr)
	ask(t, s, r, resign)
	wantCommands(t, "a notice", seen(), "EVAL RPUSH PEXPIRE")
	force := resign
	force.Force = true
	ask(t, s, r, force)
	wantCommands(t, "a removal", seen(), "EVAL RPUSH PEXPIRE")
}
