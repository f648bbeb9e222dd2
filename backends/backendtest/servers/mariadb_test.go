package servers_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
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
