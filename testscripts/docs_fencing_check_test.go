//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { fencingSections["Before an irreversible write"] = fencingCheck }

// fencingCheck: who holds the key pays; who has lost it doesn't, while its flockd, which is frozen,
// lets it run on.
func fencingCheck(p *page) {
	pay, far := p.take("sh", "./pay.sh"), p.take("sh", "./pay-web1.sh")
	p.Run("holder", func(t *testing.T) {
		t.Parallel()
		r := payer(t, pay, "true\n")
		r.run(r.direct, "pay", "--", "./pay.sh").ends(0)
		if !r.exists("paid") {
			t.Error("not paid")
		}
	})
	p.Run("zombie", func(t *testing.T) {
		t.Parallel()
		r := payer(t, pay, "echo >preparing; until [ -e go ]; do sleep 0.02; done\n")
		zombie := r.run(r.direct, "pay", "--ttl", "25s", "--on-lost", "warn", "--", "sh", "-c", "./pay.sh; echo $? >code; echo >ended")
		r.await("preparing")
		r.signals(zombie.cmd.Process.Pid, unix.SIGSTOP) // before the break, of which it would hear: it may not be frozen while it has the store's lock
		r.tool(filepath.Join(bin, "flockd"), "break", "pay", "--backend", r.direct, "--reason", "by hand", "--yes", "--force")
		r.run(r.direct, "pay", "--", "true").ends(0)
		r.signals(zombie.cmd.Process.Pid, unix.SIGCONT)
		r.goOn()
		r.await("ended")
		zombie.ends(79)
		if r.exists("paid") || r.number("code") != 79 {
			t.Errorf("status %d, paid: %v", r.number("code"), r.exists("paid"))
		}
	})
	p.Run("on another host", func(t *testing.T) {
		t.Parallel()
		r := payer(t, far, "[ ! -e broken ] || flockd break --yes --force --reason late -- \"$FLOCKD_KEY\"\n")
		r.writes("ssh", `[ $# = 2 ] && [ "$1" = web1 ] && exec env -i PATH="$PATH" HOME="$HOME" elsewhere sh -c "$2"`+"\n")
		r.path = r.dir + ":" + r.path
		const key = ` it's "$HOME" \n `
		r.run(r.direct, key, "--", "./pay.sh").ends(0)
		if !r.exists("paid") {
			t.Error("not paid")
		}
		must(t, os.Remove(filepath.Join(r.dir, "paid")))
		r.writes("broken", "")
		r.run(r.direct, key, "--on-lost", "warn", "--", "sh", "-c", "./pay.sh; echo $? >code").ends(79)
		if r.exists("paid") || r.number("code") != 79 {
			t.Errorf("status %d, paid: %v", r.number("code"), r.exists("paid"))
		}
	})
}

// payer is a folder with what the page's script calls.
func payer(t *testing.T, pay block, prepare string) *rig {
	r := newFolder(t)
	r.direct = "sqlite://" + r.dir + "/flockd.db"
	r.writes("prepare.sh", prepare)
	r.writes("transfer.sh", "echo >paid\n")
	r.writes("pay.sh", pay.text)
	return r
}
