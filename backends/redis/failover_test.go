package redis

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// address is one behind which the server changes: what it forwards stays with the
// server that it went to, as with a name or a virtual address.
type address struct {
	Addr string
	to   atomic.Value // string
	n    atomic.Int32 // connections so far
}

func fixed(t testing.TB, to string) *address {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	a := &address{Addr: listener.Addr().String()}
	a.to.Store(to)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			a.n.Add(1)
			go forward(client, a.to.Load().(string))
		}
	}()
	return a
}

func forward(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	io.Copy(client, server)
}

// A server that was ours and is a replica now is trouble that passes, with a new
// connection at the next attempt: a run that waits or releases outlasts a failover.
func TestFailoverBehindAnAddress(t *testing.T) {
	t.Parallel()
	old, next := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t, "--repl-diskless-sync-delay", "0")
	toOld, toNext := open(t, "redis://"+old.Addr), open(t, "redis://"+next.Addr)
	do(t, toOld, "PING")
	do(t, toNext, "PING") // before it is a replica
	at := fixed(t, old.Addr)
	holder, waiter := open(t, "redis://"+at.Addr), open(t, "redis://"+at.Addr)
	lease := acquire(t, holder, request("a"))
	place := queue("a")
	answer := held(t, waiter, place)
	replicate(t, toNext, old)
	do(t, toNext, "REPLICAOF", "NO", "ONE")
	replicate(t, toOld, next)

	// The address has not been moved yet: the connection that was there, then a greeting.
	for range 2 {
		before := at.n.Load()
		_, err := holder.Renew(t.Context(), lease)
		wantTrouble(t, err, at.Addr+" is a replica now")
		wantTrouble(t, holder.Release(t.Context(), "a", lease.ID, backends.Outcome{}), at.Addr+" is a replica now")
		_, err = waiter.Acquire(t.Context(), place)
		wantTrouble(t, err, at.Addr+" is a replica now")
		if n := at.n.Load() - before; n < 1 {
			t.Error("no new connection")
		}
	}
	_, err := open(t, "redis://"+at.Addr).Acquire(t.Context(), request("a"))
	wantRefused(t, err, at.Addr+" is a replica")

	at.to.Store(next.Addr)
	renew(t, holder, lease)
	over := make(chan error, 1)
	go func() { over <- waiter.Wait(soon(t, patience), answer) }()
	awaitInfo(t, toNext, "clients", "blocked_clients:1")
	release(t, holder, lease)
	if err := <-over; err != nil {
		t.Errorf("Wait = %v", err)
	}
	if l := acquire(t, waiter, place); l.Token <= lease.Token {
		t.Errorf("token %d after %d", l.Token, lease.Token)
	}
}

// The first attempt after the address has moved fails on the old connection, and the
// next one is on a new one.
func TestFailoverCostsOneAttempt(t *testing.T) {
	t.Parallel()
	old, next := servers.Redis(t), servers.Redis(t)
	at := fixed(t, old.Addr)
	s, toOld := open(t, "redis://"+at.Addr), open(t, "redis://"+old.Addr)
	do(t, toOld, "PING")
	lease := acquire(t, s, request("a"))
	at.to.Store(next.Addr)
	do(t, toOld, "REPLICAOF", "127.0.0.1", "1")
	_, err := s.Renew(t.Context(), lease)
	wantTrouble(t, err, "is a replica now")
	renewIsLost(t, s, lease) // asked of the other server
	if n := at.n.Load(); n != 2 {
		t.Errorf("%d connections, want two", n)
	}
}

// A server that has served us isn't asked whether it speaks TLS when it hangs up.
func TestHangingUp(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, fresh := open(t, "redis://"+x.Addr), open(t, "redis://"+x.Addr)
	lease := acquire(t, s, request("a"))
	server.Kill()
	x.Cut()
	await(t, "an attempt on a new connection", func() (string, bool) {
		_, err := s.Renew(t.Context(), lease)
		wantTrouble(t, err, x.Addr)
		return err.Error(), strings.HasSuffix(err.Error(), "it closed the connection without an answer")
	})
	await(t, "an end without an answer", func() (string, bool) { // not a reset, which may come instead
		_, err := fresh.Acquire(t.Context(), request("a"))
		wantTrouble(t, err, x.Addr)
		return err.Error(), strings.Contains(err.Error(), "does it speak TLS? then use rediss://")
	})
}
