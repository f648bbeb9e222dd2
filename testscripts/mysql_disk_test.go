//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
)

// mount puts a file system of that size at a folder.
func (r *rig) mount(dir, size string) {
	r.Helper()
	must(r, unix.Mount("flockd-test", dir, "tmpfs", 0, "size="+size))
	r.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// A disk that is full has the server hold up all that it would write to its binary log.
func TestMySQLLogDiskIsFull(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	(&rig{T: t}).mount(logs, "1m")
	r := served(t, mysql, servers.MariaDB(t, "--log-bin="+logs+"/binlog", "--server-id=1", "--sync-binlog=1"))
	firstUse(r)
	j := r.probes("stamps", "--ttl", "3s")
	filler := fill(r, logs)
	j.lost()
	next := r.next()
	r.server.Kill() // or it would look at the disk again in a minute
	must(t, os.Remove(filler))
	r.server.Start()
	next.ends(0)
	r.before("stamps", "next")
}

// Where the disk of the tables alone is full, those who hold can renew and release.
func TestMySQLTableDiskIsFull(t *testing.T) {
	t.Parallel()
	r := served(t, mysql, servers.MariaDB(t))
	tables := filepath.Join(r.server.Dir, "data", servers.MariaDBDatabase)
	r.mount(tables, "4m")
	j := r.works("7", "--ttl", "6s")
	fill(r, tables)
	if _, err := r.root().ExecContext(t.Context(), "CREATE TABLE more (n INT) ENGINE=InnoDB"); err == nil {
		t.Error("there is room for a table")
	}
	j.ends(0)
	r.free(0)
}
