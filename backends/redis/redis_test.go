package redis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

func openURL(t testing.TB, text string) (*Store, error) {
	t.Helper()
	u, err := backends.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		return nil, err
	}
	s := b.(*Store)
	t.Cleanup(func() { s.Close() })
	return s, nil
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := openURL(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(key string) backends.Request {
	return backends.Request{Key: key, ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
}

func acquire(t testing.TB, s *Store, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// patience is for what takes a second on an idle machine.
const patience = 30 * time.Second

// await asks until done says so, and shows what was said last if it never does.
func await(t testing.TB, what string, done func() (said string, ok bool)) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		said, ok := done()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s: %s", what, said)
		}
	}
}

// awaitInfo returns when INFO says so. The client is the one from before: a new one
// would be refused by a replica.
func awaitInfo(t testing.TB, s *Store, section, line string) {
	t.Helper()
	await(t, line, func() (string, bool) {
		info := do(t, s, "INFO", section).(string)
		return info, strings.Contains(info, line+"\r\n")
	})
}

// do runs one command like a stranger would.
func do(t testing.TB, s *Store, args ...any) any {
	t.Helper()
	v, err := s.client.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func wantRefused(t testing.TB, err error, text string) {
	t.Helper()
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want a refusal that says %q", err, text)
	}
}

// wantTrouble is for an error that may pass.
func wantTrouble(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want an ordinary error that says %q", err, text)
	}
}

// watch records what clients ask a server for from now on; what scripts do is left out.
// The function returns it.
func watch(t testing.TB, addr string) (seen func() []string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20) // a script's text
	next := func() string {
		conn.SetReadDeadline(time.Now().Add(patience))
		if !lines.Scan() {
			t.Fatalf("monitor: %v", lines.Err())
		}
		return lines.Text()
	}
	conn.Write([]byte("MONITOR\r\n"))
	if ok := next(); ok != "+OK" {
		t.Fatal(ok)
	}
	return func() (all []string) {
		marker := backends.NewID()
		do(t, open(t, "redis://"+addr), "ECHO", marker)
		var clients []string // of all
		for {
			by, text, _ := strings.Cut(next(), "] ")
			_, client, _ := strings.Cut(by, "[")
			switch {
			case strings.Contains(text, marker):
				greeting := slices.Index(clients, client) // others may have asked since
				return slices.Delete(all, greeting, greeting+1)
			case !strings.HasSuffix(by, " lua"):
				all, clients = append(all, text), append(clients, client)
			}
		}
	}
}

// commands are the names of requests.
func commands(requests []string) (all []string) {
	for _, r := range requests {
		name, _, _ := strings.Cut(strings.TrimPrefix(r, `"`), `"`)
		all = append(all, strings.ToUpper(name))
	}
	return all
}

func wantCommands(t *testing.T, what string, requests []string, want string) {
	t.Helper()
	if got := strings.Join(commands(requests), " "); got != want {
		t.Errorf("%s asked for %s, want %s", what, got, want)
	}
}

func renew(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Fatalf("Renew = %v", err)
	}
}

func release(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	if err := s.Release(t.Context(), lease.Key, lease.ID, backends.Outcome{}); err != nil {
		t.Fatalf("Release = %v", err)
	}
}

func inspect(t testing.TB, s *Store, key string) backends.Status {
	t.Helper()
	status, err := s.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	return status
}

func held(t testing.TB, s *Store, r backends.Request) *backends.HeldError {
	t.Helper()
	var held *backends.HeldError
	if lease, err := s.Acquire(t.Context(), r); !errors.As(err, &held) {
		t.Fatalf("Acquire = %+v, %v; want a HeldError", lease, err)
	}
	return held
}

func queue(key string) backends.Request {
	r := request(key)
	r.Place = time.Minute
	return r
}

func soon(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func isLost(t testing.TB, err error, what string) {
	t.Helper()
	if !errors.Is(err, backends.ErrLost) {
		t.Errorf("%s = %v, want %v", what, err, backends.ErrLost)
	}
}

// stranger is the address of a server that isn't a Redis. Its connections last as long as
// the test.
func stranger(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
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
			defer conn.Close()
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}
