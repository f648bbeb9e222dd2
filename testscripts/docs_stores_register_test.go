//go:build linux

package testscripts

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRegistersAreListed has the page's commands list the resources that a store has a register
// of. The pages of PostgreSQL and MySQL have tests of their own.
func TestRegistersAreListed(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		r := newFolder(t)
		r.direct = "sqlite://" + r.dir + "/flockd.db"
		r.lists("SQLite", " FROM register ", "/srv/locks/flockd.db", r.dir+"/flockd.db")
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		r := served(t, redis, redis.start(t))
		host, port, _ := net.SplitHostPort(r.server.Addr)
		r.lists("Redis", " --scan ", "redis-cli", "redis-cli -h "+host+" -p "+port)
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		r := served(t, etcd, etcd.start(t))
		r.lists("etcd", " --prefix flockd/fence/", "etcdctl", "etcdctl --endpoints "+r.server.Addr)
	})
}

// lists wants the one command of a store's part that has such a word to name what a run and the
// administrator have made, with old replaced by now.
func (r *rig) lists(store, word, old, now string) {
	r.Helper()
	run := exec.Command(filepath.Join(bin, "flockd"), "run", "--key", "reports", "--", "flockd", "fence", "admit", "reports-of-the-web")
	run.Env = []string{"FLOCKD_BACKEND=" + r.direct}
	r.launch(run).ends(0)
	r.fence("reset", "mails", "--to", "5").ends(0)
	found := 0
	for _, line := range commandsOf(r.T, store) {
		if !strings.Contains(line, word) {
			continue
		}
		found++
		if said := r.tool("sh", "-c", strings.Replace(line, old, now, 1)); !strings.Contains(said, "reports-of-the-web") || !strings.Contains(said, "mails") {
			r.Errorf("%s says %q", line, said)
		}
	}
	if found != 1 {
		r.Errorf("docs/stores.md has %d commands with %q for %s", found, word, store)
	}
}
