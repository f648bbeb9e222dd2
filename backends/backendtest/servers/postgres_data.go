package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

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
host all all 0.0.0.0/0 scram-sha-256
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
