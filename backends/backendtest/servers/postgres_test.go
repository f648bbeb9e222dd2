package servers_test

import (
	"context"
	"fmt"
	"os/exec"
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

// TestPostgresFrozen has a session open, which is a process of its own and has to stand
// still with the rest.
func TestPostgresFrozen(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t)
	wantsTuples(t, p, "CREATE TABLE t (n int)", "")
	session := exec.Command("psql", "-XAtq", "postgres://postgres@"+p.Addr+"/flockd")
	in, err := session.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	defer session.Wait()
	defer in.Close()
	fmt.Fprintln(in, "SELECT 'open';")
	var said string
	fmt.Fscan(out, &said)
	p.Freeze()
	fmt.Fprintln(in, "INSERT INTO t VALUES (1); SELECT 'done';")
	answer := make(chan string, 1)
	go func() {
		var said string
		fmt.Fscan(out, &said)
		answer <- said
	}()
	if got, err := psql(p.Addr, "SELECT 1", soon); err == nil {
		t.Errorf("frozen, it says %q to a new session", got)
	}
	select {
	case got := <-answer:
		t.Errorf("frozen, it says %q to an open session", got)
	case <-time.After(10 * soon): // a session that goes on is no quicker on a busy machine
	}
	p.Thaw()
	if got := <-answer; said != "open" || got != "done" {
		t.Errorf("the session heard %q and, after the thaw, %q", said, got)
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
