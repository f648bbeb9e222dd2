package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// What each operation costs, with nobody and with many in line.
func TestRequests(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	url := "redis://" + server.Addr
	for _, waiters := range []int{0, 1, 2, 200} {
		a, b := open(t, url), open(t, url)
		key := backends.NewID()
		seen := watch(t, server.Addr)
		lease := acquire(t, a, request(key))
		wantCommands(t, "the first acquire", seen(), "HELLO EVAL")
		renew(t, a, lease)
		wantCommands(t, "a renewal", seen(), "EVAL")
		for range waiters {
			held(t, b, queue(key))
		}
		seen()
		release(t, a, lease)
		if waiters == 0 {
			wantCommands(t, "a release", seen(), "EVAL")
		} else {
			wantCommands(t, "a release with waiters", seen(), "EVAL RPUSH PEXPIRE")
		}
	}
}

// A reply that is lost leaves no ghost: asking again finds what was done.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)

	r := request("a")
	loses(t, x, acquireScript, func() error { _, err := s.Acquire(t.Context(), r); return err })
	line := inspect(t, direct, "a").Line
	lease := acquire(t, s, r)
	if len(line) != 1 || line[0].Token != lease.Token {
		t.Errorf("line %+v after a lost grant, then token %d", line, lease.Token)
	}

	loses(t, x, renewScript, func() error { _, err := s.Renew(t.Context(), lease); return err })
	renew(t, s, lease)

	loses(t, x, releaseScript, func() error { return s.Release(t.Context(), "a", r.ID, backends.Outcome{Class: "finished"}) })
	isLost(t, s.Release(t.Context(), "a", r.ID, backends.Outcome{Class: "again"}), "the second release")
	_, err := s.Acquire(t.Context(), r)
	isLost(t, err, "acquire after the release")
	if status := inspect(t, direct, "a"); len(status.Line) != 0 || status.Last == nil || status.Last.Class != "finished" {
		t.Errorf("status %+v", status)
	}

	r = request("a")
	loses(t, x, acquireScript, func() error { _, err := s.Acquire(t.Context(), r); return err })
	release(t, s, backends.Lease{Key: "a", ID: r.ID}) // given up, not knowing
	acquire(t, direct, request("a"))
}

// mark is what only requests with that script contain: the last line of its own.
func (sc script) mark() []byte {
	text := strings.TrimSpace(string(sc))
	return []byte(text[strings.LastIndex(text, "\n")+1:])
}

// loses loses the reply to the script that ask runs, which must say that it doesn't
// know the outcome.
func loses(t testing.TB, x *servers.TCPProxy, sc script, ask func() error) {
	t.Helper()
	lost := x.LoseReply(sc.mark())
	wantUnknown(t, ask(), "lost the connection: connection reset by peer")
	<-lost
}

func wantUnknown(t testing.TB, err error, text string) {
	t.Helper()
	for _, answer := range []error{nil, backends.ErrLost, backends.ErrNotFound, backends.ErrHeld} {
		if errors.Is(err, answer) {
			t.Fatalf("err = %v, want an unknown outcome", err)
		}
	}
	wantTrouble(t, err, text)
}

// Nothing is asked twice unseen: go-redis would after the end of a connection, and a
// release would be answered with "lost" though it was the one that counted.
func TestNothingIsRepeated(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s := open(t, "redis://"+x.Addr)
	lease := acquire(t, s, request("a"))
	lost := x.EndBeforeReply(releaseScript.mark())
	seen := watch(t, server.Addr)
	err := s.Release(t.Context(), "a", lease.ID, backends.Outcome{Class: "finished"})
	wantUnknown(t, err, "lost the connection: closed by the server")
	<-lost
	wantCommands(t, "a release whose reply was lost", seen(), "EVAL")
}

// An acquire that is delivered after its own release grants nothing.
func TestLateAcquire(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)
	inspect(t, s, "a") // connects
	r := request("a")
	x.Stall(servers.Requests)
	_, err := s.Acquire(soon(t, time.Second), r)
	wantTrouble(t, err, "no answer in time")
	isLost(t, direct.Release(t.Context(), "a", r.ID, backends.Outcome{}), "release")
	seen := watch(t, server.Addr)
	x.Pass(servers.Requests)
	await(t, "the late request", func() (string, bool) {
		requests := strings.Join(seen(), "\n")
		return requests, strings.Contains(requests, r.ID)
	})
	if line := inspect(t, direct, "a").Line; len(line) > 0 {
		t.Errorf("a ghost: %+v", line)
	}
}

// A question that was held up until nobody waits for its answer grants nothing.
func TestAbandonedQuestion(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s, direct := open(t, "redis://"+x.Addr), open(t, "redis://"+server.Addr)
	lease, r := acquire(t, direct, request("a")), queue("a")
	held(t, s, r)
	x.Stall(servers.Requests)
	waited := soon(t, time.Second)
	_, err := s.Acquire(waited, r)
	wantTrouble(t, err, "no answer in time")
	<-waited.Done()
	<-soon(t, 300*time.Millisecond).Done() // how far the host knows the server's clock
	release(t, direct, lease)
	seen := watch(t, server.Addr)
	x.Pass(servers.Requests)
	await(t, "the late request", func() (string, bool) {
		requests := strings.Join(seen(), "\n")
		return requests, strings.Contains(requests, r.ID)
	})
	if line := inspect(t, direct, "a").Line; len(line) != 1 || line[0].State != backends.Waiting {
		t.Errorf("line %+v, want a place alone", line)
	}
}

// A clock that is set, in either direction, costs nobody an answer.
func TestQuestionsWhileTheClockIsSet(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	server := clock.Redis(t)
	s, r := open(t, "redis://"+server.Addr), queue("a")
	acquire(t, s, request("a"))
	r.Place = 24 * time.Hour
	for _, step := range []time.Duration{0, 20 * time.Second, -time.Hour} {
		clock.Step(step)
		held(t, s, r)
	}
}

// A connection whose request timed out isn't used again: the late answer would be
// taken for that of another request.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s := open(t, "redis://"+x.Addr)
	lease := acquire(t, s, request("a"))
	x.Stall(servers.Replies)
	if _, err := s.Inspect(soon(t, 100*time.Millisecond), "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Inspect = %v", err)
	}
	x.Pass(servers.Replies)
	before := x.Accepted()
	if line := inspect(t, s, "b").Line; len(line) > 0 {
		t.Errorf("the line of b is that of a: %+v", line)
	}
	renew(t, s, lease)
	if n := x.Accepted() - before; n != 1 {
		t.Errorf("%d new connections, want one", n)
	}
}

// A connection that hangs costs one attempt: the next is on another.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	s := open(t, "redis://"+x.Addr+"?timeout=1h") // so that only the caller's time ends a request
	lease := acquire(t, s, request("a"))
	x.Silence()
	ctx, over := soon(t, 150*time.Millisecond), make(chan error, 1)
	go func() { _, err := s.Renew(ctx, lease); over <- err }()
	select {
	case err := <-over:
		wantTrouble(t, err, "no answer in time")
	case <-time.After(patience):
		t.Fatal("Renew goes on after its time")
	}
	renew(t, s, lease)
	x.Cut() // while nobody uses it: no attempt at all
	renew(t, s, lease)
}

// A server that hangs, hangs for no longer than the request may last, with and
// without a connection.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s, fresh := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr+"?timeout=200ms")
	lease := acquire(t, s, request("a"))
	server.Freeze()
	_, err := s.Renew(soon(t, 200*time.Millisecond), lease)
	wantTrouble(t, err, server.Addr+": no answer in time")
	_, err = fresh.Acquire(t.Context(), request("a"))
	wantTrouble(t, err, server.Addr+": no answer in time")
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err = s.Renew(ctx, lease); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	server.Thaw()
	renew(t, s, lease)
}

// A Wait that was given up is over at the server too, and takes no later ring.
func TestAbandonedWait(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	url := "redis://" + server.Addr
	a, b := open(t, url), open(t, url)
	lease := acquire(t, a, request("a"))
	r := queue("a")
	answer := held(t, b, r)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.Wait(ctx, answer) }()
	awaitInfo(t, a, "clients", "blocked_clients:1")
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v", err)
	}
	awaitInfo(t, a, "clients", "blocked_clients:0")
	release(t, a, lease)
	if err := b.Wait(soon(t, 10*time.Second), answer); err != nil {
		t.Errorf("Wait = %v, want the ring", err)
	}
	acquire(t, b, r)
}

// A Wait holds up no renewal, and the next Wait uses its connection again.
func TestWaitsShareAnEar(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	x := servers.Proxy(t, server.Addr)
	a, b := open(t, "redis://"+server.Addr), open(t, "redis://"+x.Addr)
	acquire(t, a, request("a"))
	lease := acquire(t, b, request("b"))
	place := queue("a")
	answer := held(t, b, place)
	for range 3 {
		over := make(chan error, 1)
		go func() { over <- b.Wait(soon(t, patience), answer) }()
		awaitInfo(t, a, "clients", "blocked_clients:1")
		renew(t, b, lease)
		a.ring(t.Context(), "a", []string{place.ID})
		if err := <-over; err != nil {
			t.Errorf("Wait = %v", err)
		}
	}
	if n := x.Accepted(); n != 2 {
		t.Errorf("%d connections, want one to ask and one to listen", n)
	}
}
