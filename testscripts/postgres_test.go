//go:build linux

package testscripts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// TestPostgresFaults are those that only a PostgreSQL has.
func TestPostgresFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		settings []string
		show     func(*rig)
	}{
		"TablesAreLocked":    {nil, tablesLocked},
		"TablesAreRewritten": {nil, tablesRewritten},
		"HoldIsLocked":       {nil, holdLocked},
		"KeyIsLocked":        {nil, keyLocked},
		"ClientIsFrozen":     {nil, clientFrozen},
		"NoMoreClients":      {nil, noMoreClients},
		"Deadlock":           {[]string{"deadlock_timeout=400ms"}, deadlock}, // flockd waits for a lock for 900 ms
		"DiskIsFull":         {nil, diskFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := served(t, postgres, servers.Postgres(t, fault.settings...))
			r.link = servers.Proxy(t, r.server.Addr)
			r.via = postgres.url(r.link.Addr)
			fault.show(r)
		})
	}
}

// console is a psql of the administrator's that stays.
type console struct {
	*rig
	in  io.WriteCloser
	out *bufio.Reader
}

func (r *rig) console() *console {
	r.Helper()
	cmd := exec.Command("psql", "-XAtq", "postgres://postgres@"+r.server.Addr+"/"+servers.PostgresDatabase)
	in, err := cmd.StdinPipe()
	must(r, err)
	out, err := cmd.StdoutPipe()
	must(r, err)
	must(r, servers.StartToDieWithUs(cmd))
	r.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	return &console{r, in, bufio.NewReader(out)}
}

// says is what some statements are answered, which must succeed.
func (s *console) says(statements string) string {
	s.Helper()
	said, state := s.asks(statements)
	if state != "00000" {
		s.Fatalf("%s: %s: %s", statements, state, said)
	}
	return said
}

// asks tells too with which code the last statement ended.
func (s *console) asks(statements string) (said, state string) {
	fmt.Fprintf(s.in, "%s;\n\\echo :SQLSTATE .\n", statements)
	for {
		line, err := s.out.ReadString('\n')
		if last, ok := strings.CutSuffix(line, " .\n"); ok || err != nil {
			return said, last
		}
		said += line
	}
}

// blocked waits until a step of flockd's waits for a lock of another session.
func (s *console) blocked() {
	s.Helper()
	until(s, "a step that waits", func() bool { return s.says("SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1") != "" })
}

// tablesLocked has an ALTER TABLE that takes too long, or waits for somebody.
func tablesLocked(r *rig) {
	j := r.probes("stamps", "--ttl", "2s")
	s := r.console()
	s.says("BEGIN; ALTER TABLE flockd.claims ADD COLUMN colour text")
	j.lost()
	s.says("ROLLBACK")
	r.next().ends(0)
	r.before("stamps", "next")
}

// tablesRewritten has the tables' files replaced all the time.
func tablesRewritten(r *rig) {
	j := r.works("5", "--ttl", "4s")
	for s := r.console(); !j.over(); {
		s.says("VACUUM FULL flockd.claims; VACUUM FULL flockd.keys; VACUUM flockd.claims; ANALYZE flockd.claims")
	}
	j.ends(0)
	r.free(0)
}

// holdLocked has an idle transaction that has locked the row of the hold.
func holdLocked(r *rig) {
	j := r.probes("stamps", "--ttl", "2s")
	s := r.console()
	s.says("BEGIN; SELECT FROM flockd.claims FOR UPDATE")
	r.run(r.direct, "k", "--", "touch", "ran").ends(75)
	j.lost()
	s.says("COMMIT")
	r.next().ends(0)
	r.before("stamps", "next")
}

// keyLocked has an idle transaction that has locked the key's row, which is in nobody's way
// who renews, or is skipped.
func keyLocked(r *rig) {
	j := r.works("5", "--ttl", "4s")
	s := r.console()
	s.says("BEGIN; SELECT FROM flockd.keys FOR UPDATE")
	r.run(r.direct, "k", "--", "touch", "ran").ends(75)
	r.run(r.direct, "other", "--", "true").ends(0)
	renewed := "SELECT count(*) FROM flockd.claims WHERE renewed > granted"
	until(r, "two renewals", func() bool { return s.says(renewed) == "1\n" })
	s.says("COMMIT")
	j.ends(0)
	r.free(0)
}

// clientFrozen has a client that is stopped in the middle of a step. The server does the
// step to its end, and nobody waits for the client.
func clientFrozen(r *rig) {
	r.run(r.direct, "k", "--", "true").ends(0)
	s := r.console()
	s.says("BEGIN; SELECT FROM flockd.keys FOR UPDATE")
	j := r.run(r.direct, "k", "--ttl", "2s", "--wait", "1m", "--", "probe", "stamps")
	s.blocked()
	must(r, unix.Kill(-j.cmd.Process.Pid, syscall.SIGSTOP))
	s.says("COMMIT")
	r.free(2 * time.Second)
	if r.exists("stamps") {
		r.Error("its command was started")
	}
	must(r, unix.Kill(-j.cmd.Process.Pid, syscall.SIGCONT))
	r.await("stamps")
	must(r, j.cmd.Process.Signal(syscall.SIGTERM))
	j.ends(143)
}

// noMoreClients has others take all connections there are, when the hold has lost its own.
func noMoreClients(r *rig) {
	j := r.probes("stamps", "--ttl", "2s")
	s := r.console()
	s.says("ALTER ROLE flockd CONNECTION LIMIT 0")
	r.run(r.direct, "k", "--", "touch", "ran").ends(69).says("all the clients that it takes")
	r.link.Cut()
	j.lost()
	s.says("ALTER ROLE flockd CONNECTION LIMIT -1")
	r.next().ends(0)
	r.before("stamps", "next")
}

// deadlock has a session lock a claim and then its key, as a release does the other way
// round, until PostgreSQL breaks off the release: it looks for that once, when the release
// has waited for a while.
func deadlock(r *rig) {
	s := r.console()
	s.says("SET deadlock_timeout = '10min'")
	until(r, "a deadlock", func() bool {
		j := r.works("0.1")
		s.says("BEGIN; SELECT FROM flockd.claims FOR UPDATE")
		s.blocked()
		s.says("SELECT FROM flockd.keys FOR UPDATE")
		s.says("COMMIT")
		j.ends(0)
		r.free(0)
		must(r, os.Remove(filepath.Join(r.dir, "running")))
		return strings.Contains(r.server.Log(), "deadlock detected")
	})
}

// diskFull has no room left for the tables: those who come are turned away, and what was
// granted before is renewed and released.
func diskFull(r *rig) {
	small := r.small("512k")
	servers.PostgresSays(r, r.server, "CREATE TABLESPACE small LOCATION '"+small+"'",
		"GRANT CREATE ON TABLESPACE small TO flockd", "ALTER ROLE flockd SET default_tablespace = small")
	j := r.works("5", "--ttl", "4s")
	filler := fill(r, small)
	s := r.console()
	for _, size := range []int{500, 1} { // what has room for no long key may still have it for a short one
		s.crams("INSERT INTO flockd.keys (key, v, used_day) SELECT convert_to(count(*) || repeat('x', " + strconv.Itoa(size) + "), 'UTF8'), 1, 0 FROM flockd.keys")
	}
	r.run(r.direct, "new", "--", "touch", "ran").ends(69).says("its disk is full")
	j.ends(0)
	r.free(0)
	must(r, os.Remove(filler))
	r.run(r.direct, "new", "--", "true").ends(0)
}

// crams repeats a statement until there is no room for what it adds.
func (s *console) crams(statement string) {
	s.Helper()
	for {
		switch said, state := s.asks(statement); state {
		case "00000":
		case "53100":
			return
		default:
			s.Fatalf("%s: %s: %s", statement, state, said)
		}
	}
}

// small is a folder of the server's that has room for so much.
func (r *rig) small(size string) string {
	r.Helper()
	var server unix.Stat_t
	must(r, unix.Stat(r.server.Data(), &server))
	dir := filepath.Join(r.server.Dir, "small")
	must(r, os.Mkdir(dir, 0o755))
	must(r, unix.Mount("flockd-test", dir, "tmpfs", 0, fmt.Sprintf("size=%s,uid=%d,gid=%d,mode=700", size, server.Uid, server.Gid)))
	r.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill makes a file that takes all the room there is.
func fill(r *rig, dir string) string {
	r.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	must(r, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		r.Fatal(err)
	}
	return f.Name()
}
