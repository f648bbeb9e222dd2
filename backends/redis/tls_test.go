package redis

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// strict is a server that speaks TLS alone, to clients with a certificate of the same
// authority, and known as 127.0.0.2 too, which its certificate isn't for.
func strict(t testing.TB, a *servers.Authority) *servers.Process {
	t.Helper()
	return servers.Redis(t, append(a.RedisArgs(), "--tls-auth-clients", "yes", "--bind", "127.0.0.1", "127.0.0.2")...)
}

// shows is the options of a client with a certificate of a's.
func shows(a *servers.Authority) string {
	cert, key := a.Client("client")
	return "&cert=" + cert + "&key=" + key
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a, stranger := servers.CA(t), servers.CA(t)
	server := strict(t, a)
	base, ours := "rediss://"+server.Addr+"?cacert=", shows(a)
	s := open(t, base+a.File+ours)
	lease := acquire(t, s, request("a"))
	renew(t, s, lease)
	waiter := queue("a")
	answer := held(t, s, waiter)
	release(t, s, lease)
	if err := s.Wait(soon(t, 10*time.Second), answer); err != nil {
		t.Errorf("Wait = %v", err)
	}
	_, port, _ := net.SplitHostPort(server.Addr)
	for url, want := range map[string]struct{ text, hint string }{
		base + stranger.File + ours:                               {"unknown authority", "?cacert="},
		"rediss://127.0.0.2:" + port + "?cacert=" + a.File + ours: {"127.0.0.2", "one of the names"},
	} {
		_, err := open(t, url).Acquire(t.Context(), request("b"))
		wantRefused(t, err, want.text)
		wantHint(t, err, want.hint)
	}
	for _, url := range []string{base + a.File, base + a.File + shows(stranger)} {
		_, err := open(t, url).Acquire(t.Context(), request("b"))
		if !errors.Is(err, backends.ErrRefused) { // the server's reason was lost with its connection
			wantTrouble(t, err, "?cert=")
			continue
		}
		wantRefused(t, err, "it refuses our TLS")
		wantHint(t, err, "?cert=")
	}
}

func wantHint(t testing.TB, err error, text string) {
	t.Helper()
	var refused *backends.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, text) {
		t.Errorf("%v: hint %+v, want %q", err, refused, text)
	}
}

// Redis closes a connection on which it hears no TLS, as it does in other cases.
func TestPlainToATLSServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.CA(t).RedisArgs()...)
	_, err := open(t, "redis://"+server.Addr).Acquire(t.Context(), request("a"))
	wantTrouble(t, err, "does it speak TLS? then use rediss://")
}

// A server that doesn't speak TLS answers what looks to it like a line, or waits for
// the rest of it.
func TestTLSToAPlainServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	for range 2 { // the greeting has random bytes
		_, err := open(t, "rediss://"+server.Addr+"?timeout=200ms").Acquire(t.Context(), request("a"))
		if err == nil || !strings.Contains(err.Error(), "speak TLS") {
			t.Errorf("err = %v", err)
		}
	}
}

// An idle connection that the server closed costs no attempt, and one that hangs costs one.
func TestTLSConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	a := servers.CA(t)
	x := servers.Proxy(t, servers.Redis(t, a.RedisArgs()...).Addr)
	s := open(t, "rediss://"+x.Addr+"?cacert="+a.File)
	lease := acquire(t, s, request("a"))
	before := x.Accepted()
	renew(t, s, lease)
	if n := x.Accepted() - before; n != 0 {
		t.Errorf("%d new connections, want the old one used again", n)
	}
	x.Silence()
	_, err := s.Renew(soon(t, 300*time.Millisecond), lease)
	wantTrouble(t, err, "no answer in time")
	renew(t, s, lease)
	x.Stall(servers.Replies)
	_, err = open(t, "rediss://"+x.Addr+"?timeout=300ms&cacert="+a.File).Acquire(t.Context(), request("b"))
	wantTrouble(t, err, "no answer to TLS in time: does it speak TLS?")
	_, err = s.Renew(soon(t, 300*time.Millisecond), lease)
	wantTrouble(t, err, "no answer in time")
	_, err = s.Renew(soon(t, 300*time.Millisecond), lease)
	wantTrouble(t, err, "no answer to TLS in time")
	if strings.Contains(err.Error(), "does it") { // it did
		t.Errorf("Renew = %v", err)
	}
}
