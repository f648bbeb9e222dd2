package servers

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What every PostgreSQL here has: a database, and its owner, who has no other right and
// needs a password. The user postgres has all rights, and needs none.
const (
	PostgresDatabase = "flockd"
	PostgresUser     = "flockd"
	PostgresPassword = "secret"
)

// Postgres starts a PostgreSQL that keeps what it acknowledged over a restart. The
// settings are its own, "max_connections=7", come last and so win; in them, {port} and
// {dir} stand for the server's.
//
// Its socket is in its folder, its data in Data. Where the test is root, it runs as
// another user, since it refuses to be root.
func Postgres(t testing.TB, settings ...string) *Process {
	t.Helper()
	return newPostgres(t, Host{}, settings...).serve()
}

// PostgresSays is what a PostgreSQL answers postgres to some statements in its database:
// rows as lines, columns with "|" between. One that can't do them fails the test.
func PostgresSays(t testing.TB, p *Process, statements ...string) string {
	t.Helper()
	args := []string{"-XAtq", "-v", "ON_ERROR_STOP=1", "postgres://postgres@" + p.Addr + "/" + PostgresDatabase}
	for _, statement := range statements {
		args = append(args, "-c", statement)
	}
	said, err := output("psql", args...)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return said
}

// Data is a PostgreSQL's data folder.
func (p *Process) Data() string { return filepath.Join(p.Dir, "data") }

// newPostgres is one that wasn't started yet.
func newPostgres(t testing.TB, on Host, settings ...string) *Process {
	t.Helper()
	who, err := unprivileged()
	if err != nil {
		t.Fatalf("a user for PostgreSQL: %v", err)
	}
	argv := []string{postgresTool("postgres"), "-D", "{dir}/data", "-p", "{port}", "-k", "{dir}"}
	settings = append([]string{"listen_addresses=" + on.ip(), "shared_buffers=8MB"}, settings...)
	for _, setting := range settings {
		argv = append(argv, "-c", setting)
	}
	p := prepareIn(t, who.folder(t), on.address(t), "database system is ready to accept", nil, argv...)
	p.host = on
	p.attr, p.stop = who.alone(), syscall.SIGINT // TERM would wait for the clients to leave
	template, err := initOnce()
	if err == nil {
		_, err = output("cp", "-a", template, p.Data())
	}
	if err != nil {
		t.Fatalf("PostgreSQL's data: %v", err)
	}
	return p
}

// postgresTool is the path of one of PostgreSQL's programs: Debian keeps them out of PATH,
// in a folder for each version, of which this is the newest.
func postgresTool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return name // for the start to fail with
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
}

func version(tool string) int {
	n, _ := strconv.Atoi(strings.Split(tool, "/")[4])
	return n
}
