//go:build linux

package testscripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestResign has the leader of each store hand over to the next, which begins when nothing of the
// old one is left.
func TestResign(t *testing.T) {
	t.Parallel()
	onStores(t, func(r *rig) {
		leader := r.run(r.direct, "k", "--ttl", "15s", "--", "probe", "stamps")
		r.await("stamps")
		next := r.run(r.direct, "k", "--ttl", "15s", "--wait", "forever", "--", "probe", "next")
		r.waiting(next)
		asked := time.Now()
		resign := r.start("resign", "--backend", r.direct, "--key", "k", "--reason", "reboot", "--wait", "30s")
		r.await("next")
		r.Logf("%v after it was asked the next one led", time.Since(asked))
		resign.ends(0).says("is over")
		if told := regexp.MustCompile(`to resign; it is told within [1-5] s( if it is up(: it was last renewed [0-9]+s ago)?)?\n`); !told.MatchString(resign.stderr.String()) {
			r.Errorf("it says nothing of when it is told:\n%s", resign.stderr.String())
		}
		leader.ends(79).says(": asked to resign by ").says(": reboot; the command ")
		r.before("stamps", "next")
		r.start("leader", "--backend", r.direct, "--key", "k", "-q").ends(0)
		r.signals(next.cmd.Process.Pid, unix.SIGTERM)
		next.ends(143)
		r.start("leader", "--backend", r.direct, "--key", "k", "-q").ends(1)
	})
}

// TestLeaderWatchOfAStoreThatIsAway goes on when the store is back, and shows who leads by then.
func TestLeaderWatchOfAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, redis)
	watch := r.prints("leader", "--backend", r.via, "--key", "svc", "--watch")
	r.await("leader.out")
	r.link.Refuse(true)
	r.link.Cut()
	until(r, "the store is away", func() bool { return strings.Contains(watch.stderr.String(), "; asking again\n") })
	leader := r.run(r.direct, "svc", "--ttl", "15s", "--", "sh", "-c", "echo >leads; exec sleep 1000")
	r.await("leads")
	r.link.Refuse(false)
	until(r, "the store is back", func() bool { return strings.Contains(watch.stderr.String(), "the store answers again, after ") })
	until(r, "a leader", func() bool { return strings.Contains(r.text("leader.out"), " leads svc, term ") })
	r.signals(watch.cmd.Process.Pid, unix.SIGTERM)
	watch.ends(143)
	if n := strings.Count(r.text("leader.out"), "\n"); n != 2 {
		r.Errorf("%d lines:\n%s", n, r.text("leader.out"))
	}
	r.signals(leader.cmd.Process.Pid, unix.SIGTERM)
	leader.ends(143)
}

// prints starts a flockd whose output goes to a file that is called as its command.
func (r *rig) prints(command string, args ...string) *job {
	r.Helper()
	cmd := exec.Command(filepath.Join(bin, "flockd"), append([]string{command}, args...)...)
	out, err := os.Create(filepath.Join(r.dir, command+".out"))
	must(r, err)
	defer out.Close()
	cmd.Stdout = out
	return r.launch(cmd)
}
