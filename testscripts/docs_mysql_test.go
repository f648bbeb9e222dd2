//go:build linux

package testscripts

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// TestMySQLPage does what the page tells an administrator to do, in its order, and keeps
// locks in what that has made, as each of the page's URLs says.
func TestMySQLPage(t *testing.T) {
	t.Parallel()
	ca := servers.CA(t)
	cert, key := ca.Server()
	server, dead := servers.MariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key), servers.MariaDB(t)
	dead.Kill()
	servers.MariaDBSays(t, server, "DROP USER flockd; CREATE DATABASE app")
	r := served(t, mysql, server)
	host, port, _ := net.SplitHostPort(server.Addr)
	must(t, os.WriteFile(filepath.Join(r.dir, ".my.cnf"), fmt.Appendf(nil, "[client]\nuser=root\nhost=%s\nport=%s\n", host, port), 0o600))
	password := filepath.Join(r.dir, "password")
	must(t, os.WriteFile(password, []byte("PASSWORD\n"), 0o600))
	here := strings.NewReplacer(
		"db.example", server.Addr, "db1,db2", dead.Addr+",localhost:"+port, "/etc/flockd/password", password, "/etc/flockd/ca.pem", ca.File,
		"/run/mysqld/mysqld.sock", filepath.Join(server.Dir, "data", "s"), "…", "--key nightly-report -- true")
	var runs, others []string
	for _, line := range commandsOf(t, "MySQL and MariaDB") {
		if strings.HasPrefix(line, "flockd run") {
			runs = append(runs, here.Replace(line))
		} else {
			others = append(others, line)
		}
	}
	setUp, looks, frees := others[:2], others[2:len(others)-1], others[len(others)-1]
	sh := func(line string) string {
		return r.tool("env", "FLOCKD_CONFIG="+os.DevNull, "PATH="+r.path, "HOME="+r.dir, "bash", "-o", "pipefail", "-ec", line)
	}
	for _, line := range slices.Concat(setUp, runs) {
		sh(line)
	}
	j := r.run("mysql://flockd:PASSWORD@"+server.Addr+"/app", "nightly-report", "--ttl", "3s", "--", "probe", "stamps")
	r.await("stamps")
	said := ""
	for _, line := range looks {
		said += sh(line)
	}
	if !strings.Contains(said, "nightly-report") {
		t.Errorf("%s: %s", looks, said)
	}
	sh(frees)
	j.ends(79).says("lost the lock on nightly-report")
}
