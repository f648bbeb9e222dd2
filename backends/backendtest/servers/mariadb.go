package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// What every MariaDB here has: a database, and a user of it alone with a password. The
// user root has all rights, and no password.
const (
	MariaDBDatabase = "flockd"
	MariaDBUser     = "flockd"
	MariaDBPassword = "secret"
)

// MariaDB starts a mariadbd that keeps what it acknowledged over a restart. The
// arguments are mariadbd's own, come last and so win; {dir} in them stands for the
// server's folder.
func MariaDB(t testing.TB, args ...string) *Process {
	t.Helper()
	return mariaDB(t, Host{}, nil, args...)
}

func mariaDB(t testing.TB, on Host, env []string, args ...string) *Process {
	t.Helper()
	data, err := installMariaDB()
	if err != nil {
		t.Fatalf("install MariaDB's tables: %v", err)
	}
	argv := append([]string{"mariadbd"}, smallMariaDB...)
	// A server that starts deletes all temporary tables in its folder for them, whosever they are.
	argv = append(argv, "--datadir={dir}/data", "--tmpdir={dir}", "--port={port}", "--bind-address="+on.ip())
	p := on.prepare(t, "ready for connections", env, append(argv, args...)...)
	starting <- struct{}{}
	defer func() { <-starting }()
	if err := os.CopyFS(filepath.Join(p.Dir, "data"), os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	p.Start()
	if t.Failed() {
		t.FailNow()
	}
	return p
}

// starting has as many at a time start as there are processors: a start is nothing but work,
// and takes them from tests that go by the clock.
var starting = make(chan struct{}, runtime.NumCPU())

// smallMariaDB reads no configuration of the host, takes 55 MB of memory in place of
// 90, and starts in a fifth of a second. The socket is in the folder of the data: a
// longer path may be too long for one.
var smallMariaDB = []string{
	"--no-defaults", "--user=root", "--socket=s", "--pid-file=pid", "--skip-name-resolve",
	"--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M", "--innodb-temp-data-file-path=ibtmp1:3M:autoextend",
	"--innodb-use-native-aio=0", "--performance-schema=off", "--key-buffer-size=64K", "--aria-pagecache-buffer-size=128K",
}

// MariaDBSays is what a MariaDB answers root to some statements: rows as lines, columns
// with tabs between. One that can't do them fails the test.
func MariaDBSays(t testing.TB, p *Process, statements string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(p.Addr)
	said, err := output("mariadb", "--no-defaults", "--user=root", "--host="+host, "--port="+port,
		"--batch", "--skip-column-names", "--execute="+statements)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return said
}

// accountsSQL leaves out the users without a name, which on some hosts would come before
// those with one.
const accountsSQL = `
DELETE FROM mysql.global_priv WHERE User = '';
FLUSH PRIVILEGES;
CREATE DATABASE ` + MariaDBDatabase + `;
CREATE USER ` + MariaDBUser + `@'%' IDENTIFIED BY '` + MariaDBPassword + `';
GRANT ALL ON ` + MariaDBDatabase + `.* TO ` + MariaDBUser + `@'%';
`

// installMariaDB makes the folder that each server's is a copy of, in a second.
var installMariaDB = sync.OnceValues(func() (string, error) {
	version, err := output("mariadbd", "--version")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(version + accountsSQL))
	return cached("mariadb-"+hex.EncodeToString(sum[:8]), func(path string) error {
		if err := os.RemoveAll(path); err != nil { // what was killed at it has left
			return err
		}
		accounts := path + ".sql"
		defer os.Remove(accounts)
		if err := os.WriteFile(accounts, []byte(accountsSQL), 0o600); err != nil {
			return err
		}
		_, err := output("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+path,
			"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=4M", "--extra-file="+accounts)
		return err
	})
})
