package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	return postgres(t, nil, settings...)
}

func postgres(t testing.TB, env []string, settings ...string) *Process {
	t.Helper()
	p := preparePostgres(t, env, settings...)
	template, err := initOnce()
	if err == nil {
		_, err = output("cp", "-a", template, p.Data())
	}
	if err != nil {
		t.Fatalf("make a PostgreSQL: %v", err)
	}
	p.Start()
	if t.Failed() {
		t.FailNow()
	}
	return p
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

// preparePostgres is one whose data folder is still to be made.
func preparePostgres(t testing.TB, env []string, settings ...string) *Process {
	t.Helper()
	who, err := unprivileged()
	if err != nil {
		t.Fatalf("a user for PostgreSQL: %v", err)
	}
	argv := []string{postgresTool("postgres"), "-D", "{dir}/data", "-p", "{port}", "-k", "{dir}"}
	settings = append([]string{"listen_addresses=127.0.0.1", "shared_buffers=8MB"}, settings...)
	for _, setting := range settings {
		argv = append(argv, "-c", setting)
	}
	p := prepareIn(t, who.folder(t), address(t), "database system is ready to accept connections", env, argv...)
	p.attr, p.stop = who.alone(), syscall.SIGINT // TERM would wait for the clients to leave
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

// initOnce makes a data folder of which each server is given a copy, in the user's cache.
var initOnce = sync.OnceValues(func() (string, error) {
	release, err := output(postgresTool("postgres"), "--version")
	if err != nil {
		return "", err
	}
	who, err := unprivileged()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(nil, release, who, accounts, admission))
	return cached("postgres-"+hex.EncodeToString(sum[:8]), who.initdb)
})

// accounts are made by a server without sessions, which takes a statement a line.
const accounts = `CREATE ROLE ` + PostgresUser + ` LOGIN PASSWORD '` + PostgresPassword + `'
ALTER DATABASE postgres RENAME TO ` + PostgresDatabase + `
ALTER DATABASE ` + PostgresDatabase + ` OWNER TO ` + PostgresUser + `
`

// admission says whom the server asks for a password.
const admission = `local all all trust
host all,replication postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
`

// initdb makes a data folder with the smallest segments of the log, so that copies are
// quick.
func (a account) initdb(path string) error {
	dir, err := os.MkdirTemp("", "flockd-initdb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := a.own(dir); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	err = a.run(dir, "", postgresTool("initdb"), "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C",
		"--wal-segsize=1", "-D", data)
	if err == nil {
		err = a.run(dir, accounts, postgresTool("postgres"), "--single", "-D", data, "template1")
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(admission), 0o600)
	}
	if err != nil {
		return err
	}
	os.RemoveAll(path) // what a test that was killed has left
	_, err = output("cp", "-a", data, path)
	return err
}

// account is a user of this machine; 0 stands for us.
type account struct{ uid, gid int }

// unprivileged is who servers that refuse to be root run as.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	who, err := user.Lookup("postgres")
	if errors.As(err, new(user.UnknownUserError)) {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		return account{}, err
	}
	uid, uidErr := strconv.Atoi(who.Uid)
	gid, gidErr := strconv.Atoi(who.Gid)
	return account{uid, gid}, errors.Join(uidErr, gidErr)
}

// folder is one of the account's, with a short name: that of a socket in it has to be.
func (a account) folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flockd-pg-")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = errors.Join(a.own(dir), os.Chmod(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (a account) own(file string) error {
	if a.uid == 0 {
		return nil
	}
	return os.Chown(file, a.uid, a.gid)
}

// run runs a command to its end in a folder of the account's.
func (a account) run(dir, stdin, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin, cmd.SysProcAttr = dir, strings.NewReader(stdin), &syscall.SysProcAttr{Credential: a.credential()}
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "ERROR:") {
		err = errors.New("a statement failed") // which ends no server
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return nil
}

func (a account) credential() *syscall.Credential {
	if a.uid == 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}
