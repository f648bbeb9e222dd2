//go:build linux

package testscripts

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// TestPostgresPage does what the page tells an administrator to do, in its order, and keeps
// locks in what that has made, as each of the page's URLs says.
func TestPostgresPage(t *testing.T) {
	t.Parallel()
	ca := servers.CA(t)
	server, dead := servers.Postgres(t, ca.PostgresSettings()...), servers.Postgres(t)
	dead.Kill()
	servers.PostgresSays(t, server, "ALTER DATABASE flockd OWNER TO postgres", "DROP ROLE flockd")
	r := served(t, postgres, server)
	password := filepath.Join(r.dir, "password")
	must(t, os.WriteFile(password, []byte("PASSWORD\n"), 0o600))
	here := strings.NewReplacer(
		"db.example", server.Addr, "db1,db2", dead.Addr+","+strings.Replace(server.Addr, "127.0.0.1", "localhost", 1),
		"/app", "/"+servers.PostgresDatabase, "/etc/flockd/password", password, "/etc/flockd/ca.pem", ca.File, "…", "--key nightly-report -- true")
	var runs, others []string
	for _, line := range commandsOf(t, "PostgreSQL") {
		if strings.HasPrefix(line, "flockd run") {
			runs = append(runs, here.Replace(line))
		} else {
			others = append(others, line)
		}
	}
	setUp, looks, frees := others[:2], others[2:len(others)-1], others[len(others)-1]
	for _, line := range setUp {
		r.with(server, "postgres", line)
	}
	for _, line := range runs {
		r.with(server, "flockd", line)
	}
	j := r.run("postgres://flockd:PASSWORD@"+server.Addr+"/flockd", "nightly-report", "--ttl", "3s", "--", "probe", "stamps")
	r.await("stamps")
	said := ""
	for _, line := range looks {
		said += r.with(server, "postgres", line)
	}
	if !strings.Contains(said, "nightly-report") {
		t.Errorf("%s: %s", looks, said)
	}
	r.with(server, "postgres", frees)
	j.ends(79).says("lost the lock on nightly-report")
}

// commandsOf are the lines of a store's part of docs/stores.md that are commands.
func commandsOf(t *testing.T, store string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/stores.md")
	must(t, err)
	_, part, _ := strings.Cut(string(page), "\n## "+store+"\n")
	part, _, _ = strings.Cut(part, "\n## ")
	var lines []string
	for _, found := range regexp.MustCompile(`(?m)^    (.*)$`).FindAllStringSubmatch(part, -1) {
		lines = append(lines, found[1])
	}
	if len(lines) < 4 {
		t.Fatalf("docs/stores.md has %d commands for %s", len(lines), store)
	}
	return lines
}

// with runs a command as a user of a PostgreSQL's, whom libpq's variables name.
func (r *rig) with(server *servers.Process, user, line string) string {
	r.Helper()
	_, port, _ := net.SplitHostPort(server.Addr)
	return r.tool("env", "FLOCKD_CONFIG="+os.DevNull, "PATH="+r.path, "PGUSER="+user, "PGPASSWORD=PASSWORD", "PGHOST=127.0.0.1",
		"PGPORT="+port, "PGDATABASE="+servers.PostgresDatabase, "bash", "-o", "pipefail", "-ec", line)
}
