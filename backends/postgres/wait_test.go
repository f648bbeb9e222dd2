package postgres

import (
	"fmt"
	neturl "net/url"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
	"flockd/backends/stored"
)

// awaitListeners returns when so many sessions have nothing to do but to listen.
func awaitListeners(t testing.TB, url string, n int) {
	t.Helper()
	await(t, "those who listen", func() (string, bool) {
		rows := run(t, url, `SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'flockd'
			AND state = 'idle' AND query LIKE '%poll_1%'`)
		return fmt.Sprintf("%d", len(rows)), len(rows) == n
	})
}

// oneConnectionForAWaiter: a run that waits has one connection, which it listens on and asks
// with, again and again.
func oneConnectionForAWaiter(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	holder, waiter := open(t, url), open(t, url)
	req := queue("a")
	for range 3 {
		lease := acquire(t, holder, request("a"))
		answer := held(t, waiter, req)
		done := waits(t, waiter, answer)
		awaitListeners(t, url, 1)
		if n := sessions(t, url); n != 2 {
			t.Errorf("%d connections for a holder and a waiter", n)
		}
		release(t, holder, lease)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		release(t, waiter, acquire(t, waiter, req))
		req = queue("a")
	}
}

// listenerEnded: who waits on a session that the server ends hears of its turn nevertheless.
func listenerEnded(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	holder, waiter := open(t, url), open(t, url+"?timeout=60s")
	lease := acquire(t, holder, request("a"))
	done := waits(t, waiter, held(t, waiter, queue("a")))
	awaitListeners(t, url, 1)
	run(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%poll_1%' AND pid <> pg_backend_pid()")
	release(t, holder, lease)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// manyWaiters: of those who wait in one process some listen, and the others look.
func manyWaiters(t *testing.T, p *servers.Process) {
	const n = 3 * listeners
	url := database(t, p, "")
	holder, waiter := open(t, url+"?timeout=60s"), open(t, url+"?timeout=60s")
	var leases []backends.Lease
	var all []<-chan error
	for i := range n {
		key := fmt.Sprint("key", i)
		leases = append(leases, acquire(t, holder, request(key)))
		all = append(all, waits(t, waiter, held(t, waiter, queue(key))))
	}
	for i, lease := range leases {
		release(t, holder, lease)
		if err := <-all[i]; err != nil {
			t.Error(err)
		}
	}
	if n := sessions(t, url); n > connections+1 {
		t.Errorf("%d connections", n)
	}
}

// front: who looks is told how many wait in front of it by then.
func front(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url)
	acquire(t, s, request("a"))
	gone, last := queue("a"), queue("a")
	for _, r := range []backends.Request{gone, queue("a"), last} {
		held(t, s, r)
	}
	for _, want := range []string{`{"news" : false, "front" : 2}`, `{"news" : false, "front" : 1}`} {
		rows, err := counts(t, url).Do(t.Context(), stored.Poll, []byte("a"), last.ID, int64(backends.RecordVersion))
		if err != nil || string(rows[0]) != want {
			t.Errorf("%s, %v, want %s", rows, err, want)
		}
		s.Release(t.Context(), "a", gone.ID, backends.Outcome{})
	}
}

// Behind a pooler that gives each transaction another session, who waits looks, and all else
// is the same; a pool of one session serves many clients.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	for _, mode := range []string{"transaction", "session"} {
		size := map[string]string{"transaction": "default_pool_size=1", "session": "default_pool_size=5"}[mode]
		pooler := servers.PgBouncer(t, p, mode, size)
		url := userURL(pooler)
		s, waiter := open(t, url), open(t, url)
		backendtest.Everything(t, s)
		lease := acquire(t, s, request("a"))
		req := queue("a")
		done := waits(t, waiter, held(t, waiter, req))
		release(t, s, lease)
		if err := <-done; err != nil {
			t.Error(err)
		}
		release(t, waiter, acquire(t, waiter, req))
		refusedByPooler(t, url)
	}
}

// refusedByPooler: waiting is of no use to whom the pooler doesn't let in.
func refusedByPooler(t *testing.T, url string) {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nodb"
	_, err = open(t, u.String()).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "nodb")
	u.Path, u.User = "/flockd", neturl.UserPassword(u.User.Username(), "wrong")
	_, err = open(t, u.String()).Acquire(t.Context(), request("a"))
	wantRefused(t, err, "refuses the user or password")
}
