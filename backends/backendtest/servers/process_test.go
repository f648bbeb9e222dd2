package servers_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// redisSays is what a Redis answers to one line, an error if it doesn't in time.
func redisSays(addr, line string, within time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(within))
	fmt.Fprintf(conn, "%s\r\n", line)
	return bufio.NewReader(conn).ReadString('\n')
}

func wantsSays(t *testing.T, r *servers.Process, line, want string) {
	t.Helper()
	if got, err := redisSays(r.Addr, line, enough); got != want {
		t.Errorf("%s: %q, %v, want %q", line, got, err, want)
	}
}

func TestRedisFrozen(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t)
	wantsSays(t, r, "PING", "+PONG\r\n")
	r.Freeze()
	if got, err := redisSays(r.Addr, "SET key 1", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("frozen, it says %q, %v", got, err)
	}
	r.Thaw()
	wantsSays(t, r, "EXISTS key", ":1\r\n") // it does what it was asked meanwhile
	r.Freeze()
	r.Kill() // a frozen one too
}

func TestRedisKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		kept string
	}{
		"nothing is kept": {nil, ":0\r\n"},
		"all is kept":     {[]string{"--appendonly", "yes", "--appendfsync", "always"}, ":1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := servers.Redis(t, c.args...)
			wantsSays(t, r, "SET key 1", "+OK\r\n")
			r.Kill()
			if got, err := redisSays(r.Addr, "PING", enough); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("killed, it says %q, %v", got, err)
			}
			r.Start()
			wantsSays(t, r, "EXISTS key", c.kept)
			r.Stop()
			r.Start()
		})
	}
}

func TestRedisWithPassword(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, "--requirepass", "secret")
	wantsSays(t, r, "AUTH secret", "+OK\r\n")
	if got, err := redisSays(r.Addr, "PING", enough); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("without: %q, %v", got, err)
	}
}

func TestEtcdKilled(t *testing.T) {
	t.Parallel()
	for _, v := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			e := servers.Etcd(t, v)
			c := client(t, e.Addr)
			if _, err := c.Put(t.Context(), "key", "value"); err != nil {
				t.Fatal(err)
			}
			e.Kill()
			e.Start()
			if got, err := c.Get(t.Context(), "key"); err != nil || got.Count != 1 {
				t.Errorf("after the restart: %v, %v", got, err)
			}
		})
	}
}

// TestEtcdGrantsShortLeases holds the pace to what it is for.
func TestEtcdGrantsShortLeases(t *testing.T) {
	t.Parallel()
	for _, v := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			got, err := client(t, servers.Etcd(t, v).Addr).Grant(t.Context(), 1)
			if err != nil || got.TTL != 1 {
				t.Errorf("asked for 1 s: %v, %v", got, err)
			}
		})
	}
}

// recorder is a test that counts what fails it.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Failed() bool { return len(r.failures) > 0 }

func (r *recorder) FailNow() { runtime.Goexit() }

// TestHarnessFails: what a test asks for and doesn't get, fails it.
func TestHarnessFails(t *testing.T) {
	t.Parallel()
	rec := &recorder{TB: t}
	r := servers.Redis(rec)
	r.Start() // it runs
	r.Kill()
	for _, ask := range []func(){r.Kill, r.Stop, r.Freeze, r.Thaw, r.Await} {
		ask()
	}
	if len(rec.failures) != 6 {
		t.Errorf("six calls that can't be done fail the test %d times: %q", len(rec.failures), rec.failures)
	}
}

// TestServerThatDoesNotStart: the test fails, and the server's log says why.
func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	rec := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		servers.Redis(rec, "--no-such-option", "1")
		t.Error("the test goes on")
	}()
	<-ended
	if len(rec.failures) != 1 || !strings.Contains(rec.failures[0], "no-such-option") {
		t.Errorf("failures: %q", rec.failures)
	}
}
