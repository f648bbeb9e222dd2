package servers_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// wantsRows asks a MariaDB, as root.
func wantsRows(t *testing.T, p *servers.Process, statements, want string) {
	t.Helper()
	if got := servers.MariaDBSays(t, p, statements); got != want {
		t.Errorf("%s: %q, want %q", statements, got, want)
	}
}

// greeting is the first that a server of MySQL's protocol says by itself, an error if it
// doesn't in time.
func greeting(addr string, within time.Duration) error {
	conn, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(within))
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestMariaDBFrozen(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	wantsRows(t, p, "SELECT 1", "1")
	p.Freeze()
	if err := greeting(p.Addr, soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("frozen, it says %v", err)
	}
	p.Thaw()
	wantsRows(t, p, "SELECT 1", "1")
	p.Freeze()
	p.Kill() // a frozen one too
}

// TestMariaDBKilled: what was acknowledged is there after the restart.
func TestMariaDBKilled(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	wantsRows(t, p, "USE flockd; CREATE TABLE t (n INT) ENGINE=InnoDB; INSERT INTO t VALUES (7)", "")
	p.Kill()
	if err := greeting(p.Addr, enough); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("killed, it says %v", err)
	}
	p.Start()
	wantsRows(t, p, "SELECT n FROM flockd.t", "7")
	p.Stop()
	p.Start()
	wantsRows(t, p, "SELECT n FROM flockd.t", "7")
}

// TestMariaDBAccounts: a user that has its own database, and needs a password.
func TestMariaDBAccounts(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t)
	_, port, _ := net.SplitHostPort(p.Addr)
	login := func(args ...string) string {
		args = append([]string{"--no-defaults", "--host=127.0.0.1", "--port=" + port, "--batch", "--skip-column-names"}, args...)
		out, _ := exec.Command("mariadb", append(args, "--execute=SELECT DATABASE()")...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	as := "--user=" + servers.MariaDBUser
	if got := login(as, "--password="+servers.MariaDBPassword, servers.MariaDBDatabase); got != servers.MariaDBDatabase {
		t.Errorf("with its password: %q", got)
	}
	if got := login(as, servers.MariaDBDatabase); !strings.Contains(got, "Access denied") {
		t.Errorf("without: %q", got)
	}
	if got := login(as, "--password="+servers.MariaDBPassword, "mysql"); !strings.Contains(got, "Access denied") {
		t.Errorf("another database: %q", got)
	}
}

// TestMariaDBPair: the replica has what was written before they were parted, refuses
// writes until it is promoted, and never has what was written in between.
func TestMariaDBPair(t *testing.T) {
	t.Parallel()
	p := servers.ReplicatedMariaDB(t)
	wantsRows(t, p.Primary, "USE flockd; CREATE TABLE t (n INT) ENGINE=InnoDB; INSERT INTO t VALUES (1)", "")
	p.Part()
	wantsRows(t, p.Primary, "INSERT INTO flockd.t VALUES (2)", "")
	wantsRows(t, p.Replica, "SELECT n, @@read_only FROM flockd.t", "1\t1")
	p.Primary.Kill()
	p.Promote()
	wantsRows(t, p.Replica, "INSERT INTO flockd.t VALUES (3); SELECT n, @@read_only FROM flockd.t", "1\t0\n3\t0")
}

// TestClockOfMariaDB: a step moves what MariaDB takes for the time, both ways.
func TestClockOfMariaDB(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	p := clock.MariaDB(t)
	for _, step := range []time.Duration{0, -time.Hour, 2 * time.Hour} {
		clock.Step(step)
		now := servers.MariaDBSays(t, p, "SELECT UNIX_TIMESTAMP(SYSDATE()) - "+strconv.FormatInt(time.Now().Unix(), 10))
		off, err := strconv.Atoi(now)
		want := map[time.Duration]int{0: 0, -time.Hour: -3600, 2 * time.Hour: 3600}[step]
		if err != nil || off < want || off > want+60 {
			t.Errorf("stepped by %v, it is off by %q s, %v, want %d", step, now, err, want)
		}
	}
}

// TestMariaDBOverTLS: it is whom the authority says, and serves nobody in clear.
func TestMariaDBOverTLS(t *testing.T) {
	t.Parallel()
	ca := servers.CA(t)
	p := servers.MariaDB(t, ca.MariaDBArgs()...)
	_, port, _ := net.SplitHostPort(p.Addr)
	ask := func(args ...string) string {
		args = append([]string{"--no-defaults", "--user=root", "--host=127.0.0.1", "--port=" + port, "--batch", "--skip-column-names"}, args...)
		out, _ := exec.Command("mariadb", append(args, "--execute=SELECT @@ssl_cert <> ''")...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	if got := ask("--ssl-ca="+ca.File, "--ssl-verify-server-cert"); got != "1" {
		t.Errorf("with the authority: %q", got)
	}
	if got := ask("--ssl-ca="+servers.CA(t).File, "--ssl-verify-server-cert"); !strings.Contains(got, "TLS/SSL error") {
		t.Errorf("with another one: %q", got)
	}
	if got := ask("--skip-ssl"); !strings.Contains(got, "Access denied") {
		t.Errorf("in clear: %q", got)
	}
}

// TestMariaDBSemisync: without its replica the primary acknowledges nothing.
func TestMariaDBSemisync(t *testing.T) {
	t.Parallel()
	p := servers.ReplicatedMariaDB(t)
	p.Semisync()
	wantsRows(t, p.Primary, "USE flockd; CREATE TABLE t (n INT) ENGINE=InnoDB; INSERT INTO t VALUES (1)", "")
	p.Part()
	_, port, _ := net.SplitHostPort(p.Primary.Addr)
	write := exec.Command("mariadb", "--no-defaults", "--user=root", "--host=127.0.0.1", "--port="+port, "--execute=INSERT INTO flockd.t VALUES (2)")
	if err := servers.StartToDieWithUs(write); err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		return strings.HasSuffix(servers.MariaDBSays(t, p.Primary, "SHOW STATUS LIKE 'Rpl_semi_sync_master_wait_sessions'"), "\t1")
	}
	for end := time.Now().Add(enough); !waits(); time.Sleep(soon / 10) {
		if time.Now().After(end) {
			t.Fatal("it doesn't wait for the replica")
		}
	}
	p.Primary.Kill()
	if err := write.Wait(); err == nil {
		t.Error("it was acknowledged")
	}
	p.Promote()
	wantsRows(t, p.Replica, "SELECT n FROM flockd.t", "1")
}
