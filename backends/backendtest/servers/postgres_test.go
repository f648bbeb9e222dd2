package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// psql is what a PostgreSQL answers its owner to a statement, an error if it doesn't in
// time.
func psql(addr, statement string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, ownerURL(addr))
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func ownerURL(addr string) string {
	return "postgres://" + servers.PostgresUser + ":" + servers.PostgresPassword + "@" + addr + "/" + servers.PostgresDatabase
}

// wantsTuples asks a PostgreSQL, as postgres.
func wantsTuples(t *testing.T, p *servers.Process, statement, want string) {
	t.Helper()
	if got := servers.PostgresSays(t, p, statement); got != want {
		t.Errorf("%s: %q, want %q", statement, got, want)
	}
}

// session is a psql that stays.
type session struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openSession(t *testing.T, url string) *session {
	t.Helper()
	s := &session{T: t, cmd: exec.Command("psql", "-XAtq", url)}
	in, inErr := s.cmd.StdinPipe()
	out, outErr := s.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, s.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	t.Cleanup(s.close)
	return s
}

func (s *session) close() {
	s.in.Close()
	s.cmd.Wait()
}

// says is the one row with which some statements are answered.
func (s *session) says(statements string) string {
	fmt.Fprintln(s.in, statements)
	line, _ := s.out.ReadString('\n')
	return strings.TrimSpace(line)
}

// TestPostgresFrozen has a session open, which is a process of its own and has to stand
// still with the rest.
func TestPostgresFrozen(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	wantsTuples(t, p, "CREATE TABLE t (n int)", "")
	open := openSession(t, "postgres://postgres@"+p.Addr+"/flockd")
	if got := open.says("SELECT 'open';"); got != "open" {
		t.Fatalf("the session says %q", got)
	}
	p.Freeze()
	answer := make(chan string, 1)
	go func() { answer <- open.says("INSERT INTO t VALUES (1); SELECT 'done';") }()
	if got, err := psql(p.Addr, "SELECT 1", soon); err == nil {
		t.Errorf("frozen, it says %q to a new session", got)
	}
	select {
	case got := <-answer:
		t.Fatalf("frozen, it says %q to an open session", got)
	case <-time.After(10 * soon): // a session that goes on is no quicker on a busy machine
	}
	p.Thaw()
	if got := <-answer; got != "done" {
		t.Errorf("after the thaw, the session says %q", got)
	}
	wantsTuples(t, p, "SELECT count(*) FROM t", "1")
	p.Freeze()
	p.Kill()
}

// TestPostgresKilled: what was acknowledged is kept, and no session outlives its server.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	wantsTuples(t, p, "CREATE TABLE t AS SELECT 1 AS n", "")
	p.Kill()
	if got, err := psql(p.Addr, "SELECT 1", enough); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("killed, it says %q, %v", got, err)
	}
	p.Start()
	wantsTuples(t, p, "SELECT n FROM t", "1")
	p.Stop()
	p.Start()
	wantsTuples(t, p, "SELECT n FROM t", "1")
}

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t, "max_connections=7")
	wantsTuples(t, p, "SHOW max_connections", "7")
	wantsTuples(t, p, "SHOW fsync", "on")
	wantsTuples(t, p, "SHOW server_encoding", "UTF8")
}

// TestPostgresAccounts: a user that owns its database, has no right beside, and needs a
// password.
func TestPostgresAccounts(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	if got, err := psql(p.Addr, "CREATE SCHEMA own; SELECT usesuper FROM pg_user WHERE usename = current_user", enough); got != "f" {
		t.Errorf("with its password: %q, %v", got, err)
	}
	out, err := exec.Command("psql", "-XAtqw", "-c", "SELECT 1", "postgres://flockd@"+p.Addr+"/flockd").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no password") {
		t.Errorf("without: %s, %v", out, err)
	}
}

// TestPostgresPair: the standby has what was written before they were parted, refuses
// writes until it is promoted, and never has what was written in between.
func TestPostgresPair(t *testing.T) {
	t.Parallel()
	p := servers.ReplicatedPostgres(t)
	wantsTuples(t, p.Primary, "CREATE TABLE t AS SELECT 1 AS n", "")
	p.Part()
	wantsTuples(t, p.Primary, "INSERT INTO t VALUES (2)", "")
	wantsTuples(t, p.Standby, "SELECT n, pg_is_in_recovery() FROM t", "1|t")
	p.Primary.Kill()
	p.Promote()
	wantsTuples(t, p.Standby, "INSERT INTO t VALUES (3)", "")
	wantsTuples(t, p.Standby, "SELECT n, pg_is_in_recovery() FROM t", "1|f\n3|f")
}

// TestPostgresSynchronous: without its standby the primary acknowledges nothing.
func TestPostgresSynchronous(t *testing.T) {
	t.Parallel()
	p := servers.ReplicatedPostgres(t)
	p.Synchronous()
	wantsTuples(t, p.Primary, "CREATE TABLE t AS SELECT 1 AS n", "")
	p.Part()
	write := exec.Command("psql", "-XAtq", "-c", "INSERT INTO t VALUES (2)", "postgres://postgres@"+p.Primary.Addr+"/flockd")
	if err := servers.StartToDieWithUs(write); err != nil {
		t.Fatal(err)
	}
	waits := "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT%'"
	for end := time.Now().Add(enough); servers.PostgresSays(t, p.Primary, waits) != "1"; time.Sleep(soon / 10) {
		if time.Now().After(end) {
			t.Fatal("it doesn't wait for the standby")
		}
	}
	p.Primary.Kill()
	if err := write.Wait(); err == nil {
		t.Error("it was acknowledged")
	}
	p.Promote()
	wantsTuples(t, p.Standby, "SELECT n FROM t", "1")
}

// TestClockOfPostgres: a step moves what PostgreSQL takes for the time, both ways.
func TestClockOfPostgres(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	p := clock.Postgres(t)
	for _, want := range []time.Duration{0, -time.Hour, time.Hour} {
		now := servers.PostgresSays(t, p, "SELECT extract(epoch FROM clock_timestamp())::bigint - "+strconv.FormatInt(time.Now().Unix(), 10))
		off, err := strconv.Atoi(now)
		if got := time.Duration(off) * time.Second; err != nil || got < want || got > want+enough {
			t.Errorf("it is off by %v, %v, want %v", got, err, want)
		}
		clock.Step(map[time.Duration]time.Duration{0: -time.Hour, -time.Hour: 2 * time.Hour}[want])
	}
}

// TestPostgresOverTLS: it is whom the authority says, and serves nobody in clear.
func TestPostgresOverTLS(t *testing.T) {
	t.Parallel()
	ca := servers.CA(t)
	p := servers.Postgres(t, ca.PostgresSettings()...)
	ask := func(options string) string {
		out, _ := exec.Command("psql", "-XAtq", "-c", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", ownerURL(p.Addr)+options).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	if got := ask("?sslmode=verify-full&sslrootcert=" + ca.File); got != "t" {
		t.Errorf("with the authority: %q", got)
	}
	if got := ask("?sslmode=verify-full&sslrootcert=" + servers.CA(t).File); !strings.Contains(got, "SSL error") {
		t.Errorf("with another one: %q", got)
	}
	if got := ask("?sslmode=disable"); !strings.Contains(got, "no encryption") {
		t.Errorf("in clear: %q", got)
	}
}
