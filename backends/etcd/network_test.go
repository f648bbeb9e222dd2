package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// proxied is a server behind a proxy, and clients through it and around it.
func proxied(t testing.TB) (x *servers.TCPProxy, through, around *Store) {
	t.Helper()
	p, url := server(t)
	x = servers.Proxy(t, p.Addr)
	return x, open(t, "etcd://"+x.Addr), open(t, url)
}

// leaseOf is how a lease's ID looks inside a request.
func leaseOf(x term) []byte { return binary.AppendUvarint(nil, uint64(x.id)) }

// An acquisition whose every request is applied and never answered, one after the
// other, is granted once, ends once, and leaves nothing; and a removal is one.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	x, s, around := proxied(t)
	for _, waits := range []bool{false, true} {
		for _, lost := range []string{"look", "lease", "place", "join", "grant", "renew", "proof", "read", "end", "claim", "removal", "revocation"} {
			t.Run(lost+map[bool]string{true: " of a waiter"}[waits], func(t *testing.T) {
				if !waits && (lost == "place" || lost == "join") {
					return // one who doesn't wait asks for neither
				}
				req := another(request(t))
				line(t, s, req.Key) // it hears of the Raft term, which its leases are made from
				place, hold := s.termOf(req.ID, forPlace, req.Place), s.termOf(req.ID, forHold, req.TTL)
				var happened <-chan struct{}
				lose := func(request string, match []byte) {
					if lost == request {
						happened = x.LoseReply(match)
					}
				}
				if waits {
					first := acquire(t, around, another(req))
					lose("look", []byte(req.ID))
					lose("place", leaseOf(place))
					lose("join", []byte(`"state":"waiting"`))
					held(t, s, req)
					release(t, around, first)
				}
				lose("look", []byte(req.ID))
				lose("lease", leaseOf(hold))
				lose("grant", []byte(`"state":"holding"`))
				lease := acquire(t, s, req)
				if again := acquire(t, around, req); again.Token != lease.Token {
					t.Errorf("token %d, and %d when asked again", lease.Token, again.Token)
				}
				lose("renew", leaseOf(hold))
				lose("proof", []byte(req.ID))
				renew(t, s, lease)
				lose("read", []byte(req.ID))
				lose("end", []byte(`"sign"`))
				release(t, s, lease)
				if _, err := s.Acquire(t.Context(), req); !errors.Is(err, backends.ErrLost) {
					t.Errorf("Acquire after the release = %v", err)
				}
				next := acquire(t, around, another(req))
				lose("claim", []byte(next.ID))
				lose("removal", []byte(`"sign"`))
				lose("revocation", leaseOf(around.termOf(next.ID, forHold, req.TTL)))
				ask(t, s, next, remove)
				isLost(t, happened)
				if _, err := around.Renew(t.Context(), next); !errors.Is(err, backends.ErrLost) {
					t.Errorf("Renew after the removal = %v", err)
				}
				if got := line(t, around, req.Key); len(got) > 0 {
					t.Errorf("%v is in line", got)
				}
			})
		}
	}
}

func isLost(t testing.TB, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-within(t).Done():
		t.Error("no reply was lost")
	}
}

// A connection that went dead without a word costs one attempt.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	x, s, _ := proxied(t)
	lease := acquire(t, s, request(t))
	renew(t, s, lease)
	if n := x.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	x.Silence()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := s.Renew(ctx, lease)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), x.Addr+": no answer in time") {
		t.Errorf("Renew = %v", err)
	}
	isPlain(t, err)
	renew(t, s, lease)
	if n := x.Accepted(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	x.Silence()
	release(t, s, lease) // whose time is enough for both attempts
}

// A connection on which something has come while an answer didn't is used again, but
// not by a renewal.
func TestSlowMember(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := open(t, url)
	var late atomic.Pointer[context.Context]
	tapped(s, func() {
		if ctx := late.Swap(nil); ctx != nil {
			put(t, s, "elsewhere", "")
			<-(*ctx).Done()
		}
	})
	req := request(t)
	lease := acquire(t, s, req)
	slowly := func(ask func(context.Context) error) (kept bool) {
		before := s.cluster.link
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		late.Store(&ctx)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		return s.cluster.link == before
	}
	if !slowly(func(ctx context.Context) error { _, err := s.Acquire(ctx, another(req)); return err }) {
		t.Error("the connection is given up by one who asks")
	}
	if slowly(func(ctx context.Context) error { _, err := s.Renew(ctx, lease); return err }) {
		t.Error("the connection is kept by one who holds")
	}
	renew(t, s, lease)
}

// A request that was cancelled, as a signal does it, may have hung. What comes after it has
// less than a second, and doesn't hang.
func TestAfterACancelledRequest(t *testing.T) {
	t.Parallel()
	x, s, _ := proxied(t)
	var sent context.CancelFunc = func() {}
	tapped(s, func() { sent() })
	lease := acquire(t, s, request(t))
	x.Silence()
	ctx, cancel := context.WithCancel(t.Context())
	sent = cancel
	if _, err := s.Renew(ctx, lease); !errors.Is(err, context.Canceled) {
		t.Errorf("Renew = %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), leastTry-time.Millisecond) // too short for two tries
	defer cancel()
	if err := s.Release(ctx, lease.Key, lease.ID, backends.Outcome{}); err != nil {
		t.Errorf("Release = %v", err)
	}
}

func TestResetConnection(t *testing.T) {
	t.Parallel()
	x, s, _ := proxied(t)
	lease := acquire(t, s, request(t))
	for range 5 {
		x.Cut()
		renew(t, s, lease)
	}
	answer := held(t, s, another(request(t)))
	done := make(chan error, 1)
	go func() { done <- s.Wait(within(t), answer) }()
	x.Cut()
	release(t, s, lease)
	if err := <-done; err != nil && !strings.Contains(err.Error(), "the connection failed") { // or there was none to cut yet
		t.Errorf("Wait = %v", err)
	}
}

// What can't be reached is passed over, wherever it is in the list.
func TestSomeMembersAreGone(t *testing.T) {
	t.Parallel()
	p, _ := server(t)
	mute, frozen := servers.Proxy(t, p.Addr), servers.Etcd(t, servers.Current)
	mute.Stall(servers.Requests)
	mute.Stall(servers.Replies)
	frozen.Freeze()
	list := []string{p.Addr, refuses, mute.Addr, frozen.Addr, "nowhere.invalid"}
	for first := range list {
		s := open(t, "etcd://"+strings.Join(list, ",")+"?timeout=60")
		s.cluster.next = first
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a third of that for all members; it takes 0.5
		lease, err := s.Acquire(ctx, request(t))
		if cancel(); err != nil {
			t.Fatalf("with %s first: %v", list[first], err)
		}
		release(t, s, lease)
		if answers := s.cluster.link.endpoint; answers != p.Addr {
			t.Errorf("with %s first %s answered", list[first], answers)
		}
	}
}

// refuses is an address where nobody listens, nor ever will.
const refuses = "127.0.0.1:1"

// A member that hangs is left for another, within the same call.
func TestMemberHangs(t *testing.T) {
	t.Parallel()
	p, url := server(t)
	x := servers.Proxy(t, p.Addr)
	s := open(t, url+","+x.Addr)
	s.cluster.next = 1
	lease := acquire(t, s, request(t))
	if x.Accepted() == 0 {
		t.Error("the proxy wasn't used")
	}
	x.Stall(servers.Replies)
	renew(t, s, lease)
	release(t, s, lease)
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for hosts, want := range map[string]string{
		refuses:                        refuses + ": connect: connection refused",
		"nowhere.invalid":              "nowhere.invalid:2379: no such host",
		refuses + ",nowhere.invalid":   "connection refused",
		"nowhere.invalid:1," + refuses: "nowhere.invalid:1: no such host",
		says(t, "HTTP/1.1 400 no\r\n"): "what answers there is no etcd",
		says(t, "-ERR unknown\r\n"):    "what answers there is no etcd",
		says(t, ""):                    "the connection was closed without an answer",
	} {
		_, err := open(t, "etcd://bob:bobpw@"+hosts).Acquire(t.Context(), request(t))
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, backends.ErrRefused) {
			t.Errorf("%s: %v, want %q", hosts, err, want)
		}
		isPlain(t, err)
	}
}

// says is the address of a server of another kind.
func says(t testing.TB, words string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, words)
			if tcp := conn.(*net.TCPConn); words != "" {
				tcp.CloseWrite()
				io.Copy(io.Discard, conn)
			}
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// Nobody answers: the caller's deadline ends the call, with a reason.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	p, url := server(t)
	s, fresh := open(t, url), open(t, url)
	lease := acquire(t, s, request(t))
	p.Freeze()
	for _, c := range []*Store{s, fresh} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := c.Renew(ctx, lease)
		if cancel(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), p.Addr) {
			t.Errorf("Renew = %v", err)
		}
		isPlain(t, err)
	}
	p.Thaw()
	renew(t, s, lease)
	release(t, fresh, lease)
}

// Open begins to connect, and whoever asks first gets that connection.
func TestOpenConnectsEarly(t *testing.T) {
	t.Parallel()
	p, _ := server(t)
	x := servers.Proxy(t, p.Addr)
	s := opened(t, "etcd://"+x.Addr)
	<-s.cluster.early.done
	if release(t, s, acquire(t, s, request(t))); x.Accepted() != 1 {
		t.Errorf("%d connections, not one", x.Accepted())
	}
}

// An early connection that stays silent costs one try.
func TestEarlyConnectionIsSilent(t *testing.T) {
	t.Parallel()
	p, _ := server(t)
	x := servers.Proxy(t, p.Addr)
	x.Stall(servers.Replies)
	s := opened(t, "etcd://"+x.Addr)
	for ctx := within(t); x.Accepted() == 0; {
		if ctx.Err() != nil {
			t.Fatal("it doesn't connect")
		}
	}
	x.Silence()
	x.Pass(servers.Replies)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // within what a run waits for a store
	defer cancel()
	if _, err := s.Acquire(ctx, request(t)); err != nil {
		t.Errorf("Acquire = %v", err)
	}
}

// opened is a store as others open it.
func opened(t testing.TB, url string) *Store {
	t.Helper()
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.(*Store)
}
