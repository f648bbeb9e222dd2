package mysql

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// deadlock: a step that the server rolls back because of one is done nevertheless. The
// stranger has changed more rows, so that it isn't the one that is rolled back.
func deadlock(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s, stranger := open(t, url), session(t, p, databaseIn(url))
	lease := acquire(t, s, request("a"))
	run(t, stranger, "CREATE TABLE heavy (n INT)")
	run(t, stranger, "START TRANSACTION")
	run(t, stranger, "INSERT INTO heavy SELECT 1 FROM information_schema.COLLATIONS LIMIT 100")
	run(t, stranger, "SELECT id FROM flockd_claims WHERE k = 'a' FOR UPDATE")
	released := begin(t, func(ctx context.Context) error { return s.Release(ctx, "a", lease.ID, backends.Outcome{}) })
	awaitLock(t, p, "DELETE FROM flockd_claims")
	run(t, stranger, "SELECT k FROM flockd_keys WHERE k = 'a' FOR UPDATE")
	run(t, stranger, "COMMIT")
	if err := <-released; err != nil {
		t.Error(err)
	}
	if said := says(t, p, "SHOW ENGINE INNODB STATUS"); !strings.Contains(said, "LATEST DETECTED DEADLOCK") {
		t.Error("there was no deadlock")
	}
}

// awaitLock returns when somebody waits for a lock with a statement that begins so.
func awaitLock(t testing.TB, p *servers.Process, statement string) {
	t.Helper()
	await(t, "a statement that waits for a lock", func() (string, bool) {
		said := says(t, p, "SHOW ENGINE INNODB STATUS")
		return said, strings.Contains(said, "LOCK WAIT") && strings.Contains(said, statement)
	})
}

// lockTimeout: a step that waited for a lock in vain leaves nothing behind: no lock of the key,
// and the session as it was.
func lockTimeout(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s, stranger, victim := open(t, url), session(t, p, databaseIn(url)), session(t, p, databaseIn(url))
	lease := acquire(t, s, request("a"))
	run(t, stranger, "START TRANSACTION")
	run(t, stranger, "SELECT id FROM flockd_claims WHERE k = 'a' FOR UPDATE")
	run(t, victim, "SET SESSION innodb_lock_wait_timeout = 47, time_zone = '+03:00'")
	_, err := victim.ExecContext(t.Context(), "CALL flockd_ask_1('a', '"+lease.ID+"', 1, '{}', 0, 0, 1, 1)")
	if numberOf(err) != 1205 {
		t.Fatalf("err = %v, want one of a lock that was waited for in vain", err)
	}
	var left, in string
	if err := row(t.Context(), victim, &left, "SELECT CONCAT(@@innodb_lock_wait_timeout, @@time_zone)"); err != nil || left != "47+03:00" {
		t.Errorf("it left %q, %v", left, err)
	}
	if err := row(t.Context(), victim, &in, "SELECT @@in_transaction"); err != nil || in != "0" {
		t.Errorf("in a transaction: %q, %v", in, err)
	}
	run(t, stranger, "SET SESSION innodb_lock_wait_timeout = 0")
	run(t, stranger, "SELECT k FROM flockd_keys WHERE k = 'a' FOR UPDATE")
	run(t, stranger, "ROLLBACK")
	renew(t, s, lease)
}

// renewalWaitsForNobody: who has the key's lock, however long, keeps no hold from being
// renewed, and nobody from being told that it is taken.
func renewalWaitsForNobody(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s, stranger := open(t, url), session(t, p, databaseIn(url))
	lease := acquire(t, s, request("a"))
	held(t, s, queue("a"))
	run(t, stranger, "START TRANSACTION")
	run(t, stranger, "SELECT k FROM flockd_keys WHERE k = 'a' FOR UPDATE")
	renew(t, s, lease)
	held(t, s, request("a"))
	if _, err := s.Inspect(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	acquire(t, s, request("b"))
	run(t, stranger, "ROLLBACK")
}

// readersWaitForNobody: who has the locks of all claims, as renewals have those of theirs, keeps
// nobody from asking, looking and standing in line.
func readersWaitForNobody(t *testing.T, p *servers.Process) {
	for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
		url := fresh(t, p, "ALL")
		s, stranger := open(t, url), session(t, p, databaseIn(url))
		asks := func() backends.Request {
			r := queue("a")
			if r.Mode = mode; mode == backends.Slots {
				r.Slots = 1
			}
			return r
		}
		first := asks()
		if mode == backends.Shared {
			first.Mode = backends.Exclusive
		}
		acquire(t, s, first)
		waiter := held(t, s, asks())
		run(t, stranger, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED") // or it locks the gaps as well
		run(t, stranger, "START TRANSACTION")
		run(t, stranger, "SELECT id FROM flockd_claims WHERE k = 'a' FOR UPDATE")
		held(t, s, asks())
		skip := asks()
		skip.Place = 0
		held(t, s, skip)
		if _, err := s.Inspect(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() { waiting <- s.(backends.Waiter).Wait(ctx, waiter) }()
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v", err)
		}
		run(t, stranger, "ROLLBACK")
	}
}

// manyAtOnce: one process takes its share of the server's connections, however much it does.
func manyAtOnce(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s, stranger := open(t, url+"?timeout=60s"), session(t, p, databaseIn(url))
	release(t, s, acquire(t, s, request("a")))
	run(t, stranger, "START TRANSACTION")
	run(t, stranger, "SELECT k FROM flockd_keys WHERE k = 'a' FOR UPDATE")
	var all []<-chan error
	for range 2 * connections {
		all = append(all, begin(t, func(ctx context.Context) error {
			_, err := s.Acquire(ctx, queue("a"))
			return err
		}))
	}
	ours := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '" + servers.MariaDBUser + "' AND DB = '" + databaseIn(url) + "'"
	await(t, "all connections to wait", func() (string, bool) {
		n := says(t, p, ours+" AND INFO LIKE 'INSERT INTO flockd_keys%'")
		return n, n == strconv.Itoa(connections)
	})
	if n := says(t, p, ours); n != strconv.Itoa(connections) {
		t.Errorf("%s connections", n)
	}
	run(t, stranger, "ROLLBACK")
	for _, done := range all {
		if err := <-done; err != nil && !errors.Is(err, backends.ErrHeld) {
			t.Error(err)
		}
	}
}

// sweep: a key that was last granted long ago goes, unless there is something to it: then it
// isn't looked at again by each one that comes.
func sweep(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s := open(t, url)
	ledger, _ := backends.As[backends.Ledger](s)
	release(t, s, acquire(t, s, request("idle")))
	release(t, s, acquire(t, s, request("young")))
	acquire(t, s, request("held"))
	once := request("completed")
	once.Once = &backends.Once{ID: "run"}
	lease := acquire(t, s, once)
	if err := ledger.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	release(t, s, lease)
	says(t, p, "USE "+databaseIn(url)+"; DELETE FROM flockd_ended; UPDATE flockd_keys SET used = used - 101 WHERE k <> 'young'")
	release(t, s, acquire(t, s, request("new")))
	const want = "completed\nheld\nnew\nyoung"
	if got := says(t, p, "SELECT k FROM "+databaseIn(url)+".flockd_keys ORDER BY k"); got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
	const look = "SELECT COUNT(*) FROM flockd_keys WHERE used < UNIX_TIMESTAMP() DIV 86400 - 100"
	if n := says(t, p, "USE "+databaseIn(url)+"; "+look); n != "0" {
		t.Errorf("%s keys are to be looked at again", n)
	}
}

// killed: a step that an administrator has killed keeps no lock, not even by a connection that
// is used no more.
func killed(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s, stranger := open(t, url), session(t, p, databaseIn(url))
	lease := acquire(t, s, request("a"))
	run(t, stranger, "LOCK TABLES flockd_claims WRITE")
	released := begin(t, func(ctx context.Context) error { return s.Release(ctx, "a", lease.ID, backends.Outcome{}) })
	id := awaitTable(t, p, databaseIn(url))
	says(t, p, "KILL QUERY "+id)
	wantTrouble(t, <-released, "has ended the request")
	await(t, "the end of the connection", func() (string, bool) {
		left := says(t, p, "SELECT * FROM information_schema.PROCESSLIST WHERE ID = "+id)
		return left, left == ""
	})
}

// late: a grant of which nobody would hear, for the step waited for too long behind the lock of
// the key's row, isn't made.
func late(t *testing.T, p *servers.Process) {
	url := fresh(t, p, "ALL")
	s, stranger, asks := open(t, url), session(t, p, databaseIn(url)), session(t, p, databaseIn(url))
	release(t, s, acquire(t, s, request("a")))
	run(t, stranger, "LOCK TABLES flockd_claims WRITE")
	const now = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
	var until, answer string
	if err := row(t.Context(), asks, &until, now+" + 300000"); err != nil {
		t.Fatal(err)
	}
	answered := begin(t, func(context.Context) error {
		return row(t.Context(), asks, &answer,
			"CALL flockd_acquire_1('a', 'one', 1, 60000000, 60000000, 0, 'exclusive', 0, '', "+until+", '', '', 0, 0, 0, 30)")
	})
	awaitTable(t, p, databaseIn(url))
	await(t, "the instant", func() (string, bool) {
		said := says(t, p, now)
		return said, said > until
	})
	run(t, stranger, "UNLOCK TABLES")
	if err := <-answered; err != nil || !strings.Contains(answer, "late") {
		t.Errorf("the answer is %s, %v", answer, err)
	}
	acquire(t, s, request("a"))
}

// awaitTable returns the ID of a connection that waits for a table of a database.
func awaitTable(t testing.TB, p *servers.Process, database string) (id string) {
	t.Helper()
	await(t, "a statement that waits for a table", func() (string, bool) {
		id = says(t, p, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '"+database+"' AND STATE LIKE 'Waiting for table%'")
		return id, id != ""
	})
	return id
}
