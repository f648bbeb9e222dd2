package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
	"flockd/backends/stored"
)

// stranger is a session of somebody else's.
type stranger struct {
	t testing.TB
	*pgconn.PgConn
}

func session(t testing.TB, url string) stranger {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return stranger{t, conn}
}

// does runs statements.
func (s stranger) does(format string, args ...any) {
	s.t.Helper()
	if _, err := s.Exec(s.t.Context(), fmt.Sprintf(format, args...)).ReadAll(); err != nil {
		s.t.Fatal(err)
	}
}

// begin starts do, and returns how to wait for its end.
func begin(do func() error) (done <-chan error) {
	c := make(chan error, 1)
	go func() { c <- do() }()
	return c
}

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

// awaitLock returns when a session of url's database has waited for a lock for so many
// milliseconds.
func awaitLock(t testing.TB, url string, milliseconds int) {
	t.Helper()
	await(t, "a step that waits for a lock", func() (string, bool) {
		rows := run(t, url, fmt.Sprintf(`SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
			AND clock_timestamp() - query_start > interval '%d ms'`, milliseconds))
		return fmt.Sprintf("%s", rows), len(rows) > 0
	})
}

const keyA = "convert_to('a', 'UTF8')"

// deadlock: a step that the server rolls back because of one is done nevertheless. A session
// looks for one once, when it has waited for so long: the step's when the stranger waits as
// well, and the stranger's so late that it isn't the one that is ended.
func deadlock(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url+"?timeout=60s&options=-c+deadlock_timeout%3D3s")
	lease := acquire(t, s, request("a"))
	other := session(t, url)
	other.does("SET deadlock_timeout = '1min'; BEGIN; SELECT FROM flockd.claims WHERE id = '%s' FOR UPDATE", lease.ID)
	released := begin(func() error { return s.Release(t.Context(), "a", lease.ID, backends.Outcome{}) })
	awaitLock(t, url, 0)
	other.does("SELECT FROM flockd.keys WHERE key = %s FOR UPDATE", keyA)
	other.does("COMMIT")
	if err := <-released; err != nil {
		t.Error(err)
	}
	await(t, "a deadlock in the log", func() (string, bool) { return "", strings.Contains(p.Log(), "deadlock detected") })
}

// renewalWaitsForNobody: who has the key's lock, however long, keeps no hold from being
// renewed, and nobody from being told that it is taken.
func renewalWaitsForNobody(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s, other := open(t, url+"?timeout=60s"), session(t, url)
	lease := acquire(t, s, request("a"))
	held(t, s, queue("a"))
	other.does("BEGIN; SELECT FROM flockd.keys WHERE key = %s FOR UPDATE", keyA)
	renew(t, s, lease)
	held(t, s, request("a"))
	if _, err := s.Inspect(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	acquire(t, s, request("b"))
}

// renewalWaitsTooLong: a lease that ended while its renewal waited for the row isn't revived,
// though the row is as it was.
func renewalWaitsTooLong(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s, other := open(t, url+"?timeout=60s"), session(t, url)
	short := request("a")
	short.TTL = 500 * time.Millisecond
	lease := acquire(t, s, short)
	other.does("BEGIN; SELECT FROM flockd.claims WHERE id = '%s' FOR UPDATE", lease.ID)
	renewed := begin(func() error {
		_, err := s.Renew(t.Context(), lease)
		return err
	})
	awaitLock(t, url, 500)
	other.does("ROLLBACK")
	wantLost(t, <-renewed)
}

// lockTimeout: a step waits for a lock as long as its client does, whatever the session's
// timeouts, and leaves nothing behind when that is over.
func lockTimeout(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	options := "&options=-c+statement_timeout%3D1s+-c+lock_timeout%3D1s"
	s, patient := open(t, url+"?timeout=300ms"+options), open(t, url+"?timeout=60s"+options)
	acquire(t, patient, request("b"))
	other := session(t, url)
	other.does("BEGIN; LOCK TABLE flockd.keys")
	_, err := s.Acquire(t.Context(), request("a"))
	wantTrouble(t, err, "")
	granted := begin(func() error {
		_, err := patient.Acquire(t.Context(), request("a"))
		return err
	})
	awaitLock(t, url, 1500)
	other.does("COMMIT")
	if err := <-granted; err != nil {
		t.Error(err)
	}
	await(t, "the end of what nobody waits for", func() (string, bool) {
		rows := run(t, url, "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state LIKE '%transaction%'")
		return fmt.Sprintf("%s", rows), len(rows) == 0
	})
}

// clockUnderTheLock: a lease that was waited for is as long as one that was not, and a claim
// that ended meanwhile has ended.
func clockUnderTheLock(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url+"?timeout=60s")
	short := request("a")
	short.TTL = 100 * time.Millisecond
	acquire(t, s, short)
	other := session(t, url)
	other.does("BEGIN; SELECT FROM flockd.keys WHERE key = %s FOR UPDATE", keyA)
	var lease backends.Lease
	granted := begin(func() (err error) {
		lease, err = s.Acquire(t.Context(), queue("a"))
		return err
	})
	awaitLock(t, url, 500)
	before := now(t, url)
	other.does("COMMIT")
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	if lease.Granted.UnixMicro() < before {
		t.Errorf("granted at %d, and before that it was %d", lease.Granted.UnixMicro(), before)
	}
}

// askedAgainUnderTheLock: a hold that is asked for again while it is renewed ends no sooner than
// the renewal has said.
func askedAgainUnderTheLock(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url+"?timeout=60s")
	req := queue("a")
	acquire(t, s, req)
	renewal := session(t, url)
	renewal.does("BEGIN; SELECT FROM flockd.claims FOR UPDATE")
	granted := begin(func() error {
		_, err := s.Acquire(t.Context(), req)
		return err
	})
	awaitLock(t, url, 100)
	ends := now(t, url) + req.TTL.Microseconds()
	renewal.does("UPDATE flockd.claims SET expires = %d; COMMIT", ends)
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	if rows := run(t, url, fmt.Sprintf("SELECT FROM flockd.claims WHERE expires < %d", ends)); len(rows) > 0 {
		t.Error("the lease is shorter than was promised")
	}
}

// lateUnderTheLock: nothing is granted to who has gone by the time that the dead in front
// can be removed.
func lateUnderTheLock(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	short := request("a")
	short.TTL = time.Millisecond
	acquire(t, open(t, url), short)
	other := session(t, url)
	other.does("BEGIN; SELECT FROM flockd.claims FOR UPDATE")
	asker, until := session(t, url), now(t, url)+500_000
	answered := begin(func() error {
		_, err := asker.Exec(t.Context(), fmt.Sprintf(`SET search_path = flockd, pg_temp;
			SELECT acquire_1('a', 'id', 1, 1000000, 0, 0, 'exclusive', 0, '{}', %d, '', '', 0, 0, 0)`, until)).ReadAll()
		return err
	})
	awaitLock(t, url, 600)
	other.does("COMMIT")
	var said *pgconn.PgError
	if err := <-answered; !errors.As(err, &said) || !strings.Contains(said.Detail, `"late"`) {
		t.Error(err)
	}
	if rows := run(t, url, "SELECT id FROM flockd.claims WHERE id = 'id'"); len(rows) > 0 {
		t.Error("it has the key")
	}
}

// now is the server's clock.
func now(t testing.TB, url string) (micros int64) {
	t.Helper()
	fmt.Sscan(string(run(t, url, "SELECT flockd.clock_1()")[0][0]), &micros)
	return micros
}

// sweep: a key that was last used long ago goes, unless there is something to it.
func sweep(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s := open(t, url)
	release(t, s, acquire(t, s, request("idle")))
	release(t, s, acquire(t, s, request("young")))
	acquire(t, s, request("held"))
	once := request("completed")
	once.Once = &backends.Once{ID: "run"}
	lease := acquire(t, s, once)
	if err := s.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	release(t, s, lease)
	release(t, s, acquire(t, s, request("forbidden")))
	run(t, url, "UPDATE flockd.ended SET until = 1 WHERE key <> convert_to('forbidden', 'UTF8')")
	run(t, url, "UPDATE flockd.keys SET used_day = used_day - 101 WHERE key <> convert_to('young', 'UTF8')")
	busy := session(t, url)
	busy.does("BEGIN; SELECT FROM flockd.keys WHERE key = convert_to('idle', 'UTF8') FOR UPDATE")
	run(t, url, sweeps) // which has no need to wait for that
	wantKeys(t, url, "completed forbidden held idle young")
	busy.does("ROLLBACK")
	run(t, url, sweeps)
	wantKeys(t, url, "completed forbidden held young")
	if rows := run(t, url, "SELECT FROM flockd.ended WHERE key = convert_to('idle', 'UTF8')"); len(rows) > 0 {
		t.Error("its IDs are left")
	}
}

const sweeps = "SET search_path = flockd, pg_temp; SELECT sweep_1(1)"

func wantKeys(t testing.TB, url, want string) {
	t.Helper()
	rows := run(t, url, "SELECT string_agg(convert_from(key, 'UTF8'), ' ' ORDER BY key) FROM flockd.keys")
	if got := string(rows[0][0]); got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
}

// connectionEnded: a session that the server has ended while nobody used it is noticed before
// a step is sent, and one that it ends in the middle of a step is an unknown outcome.
func connectionEnded(t *testing.T, p *servers.Process) {
	url := database(t, p, "")
	s, other := open(t, url+"?timeout=60s"), session(t, url)
	lease := acquire(t, s, request("a"))
	const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	other.does(end)
	await(t, "the end of the session", func() (string, bool) {
		return "", len(run(t, url, "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'flockd'")) == 0
	})
	renew(t, s, lease)
	other.does("BEGIN; SELECT FROM flockd.keys WHERE key = %s FOR UPDATE", keyA)
	released := begin(func() error { return s.Release(t.Context(), "a", lease.ID, backends.Outcome{}) })
	awaitLock(t, url, 0)
	other.does(end)
	err := <-released
	wantTrouble(t, err, "it has ended the session")
	if errors.Is(err, backends.ErrLost) {
		t.Errorf("Release = %v", err)
	}
	other.does("ROLLBACK")
	renew(t, s, lease)
	release(t, s, lease)
}

// sessions counts those of flockd in url's database.
func sessions(t testing.TB, url string) int {
	t.Helper()
	return len(run(t, url, "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'flockd'"))
}

// waits starts a Wait.
func waits(t testing.TB, s *stored.Store, held *backends.HeldError) (done <-chan error) {
	return begin(func() error { return s.Wait(t.Context(), held) })
}
