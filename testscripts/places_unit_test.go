//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unit is a cgroup as a service has it.
type unit struct{ folder string }

func newUnit(t *testing.T) unit {
	u := unit{filepath.Join(ownCgroup(), fmt.Sprintf("unit-%d-%d", os.Getpid(), time.Now().UnixNano()))}
	must(t, os.Mkdir(u.folder, 0o755))
	t.Cleanup(func() {
		u.kill()
		until(t, "an empty unit", func() bool { return len(u.members()) == 0 })
		for _, inner := range u.folders() {
			os.Remove(inner)
		}
		os.Remove(u.folder)
	})
	return u
}

func (u unit) folders() []string {
	inner, _ := filepath.Glob(filepath.Join(u.folder, "*", "cgroup.procs"))
	for i := range inner {
		inner[i] = filepath.Dir(inner[i])
	}
	return inner
}

func (u unit) members() (pids []int) {
	for _, folder := range append(u.folders(), u.folder) {
		text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// term sends TERM to everybody at once, as KillMode=control-group does. Nobody runs until
// all have got it, however long that takes us on a busy machine.
func (u unit) term(r *rig) {
	r.Helper()
	must(r, os.WriteFile(filepath.Join(u.folder, "cgroup.freeze"), []byte("1"), 0))
	until(r, "a frozen unit", func() bool {
		events, _ := os.ReadFile(filepath.Join(u.folder, "cgroup.events"))
		return strings.Contains(string(events), "frozen 1\n")
	})
	for _, pid := range u.members() {
		syscall.Kill(pid, unix.SIGTERM)
	}
	must(r, os.WriteFile(filepath.Join(u.folder, "cgroup.freeze"), []byte("0"), 0))
}

func (u unit) kill() { os.WriteFile(filepath.Join(u.folder, "cgroup.kill"), []byte("1"), 0) }

// start starts flockd in the unit.
func (u unit) start(r *rig, args ...string) *job {
	r.Helper()
	cmd := exec.Command("sh", append([]string{"-c", "echo $$ >" + u.folder + `/cgroup.procs && exec "$0" "$@"`,
		filepath.Join(bin, "flockd"), "run", "--backend", r.direct, "--key", "k"}, args...)...)
	j := r.launch(cmd)
	j.guarded()
	return j
}

// A service that is stopped: TERM to all of it, or to flockd alone, and at last KILL.
func TestUnit(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*rig, unit){
		"control-group":           func(r *rig, u unit) { stopAll(r, u, "flockd") },
		"control-group, nocgroup": func(r *rig, u unit) { stopAll(r, u, "nocgroup") },
		"control-group, dies":     stopAllDies,
		"mixed":                   stopMixed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop(embedded(t), newUnit(t))
		})
	}
}

// stopAll: the command gets TERM from whoever stops the unit and from flockd. Two that come
// together are one to it.
func stopAll(r *rig, u unit, contained string) {
	j := u.start(r, inside(contained, "counts", "got")...)
	r.await("got")
	u.term(r)
	r.hears(unix.SIGTERM)
	r.signals(j.cmd.Process.Pid, unix.SIGHUP)
	r.hears(unix.SIGHUP) // what is passed on, is in its turn
	r.signals(j.cmd.Process.Pid, unix.SIGUSR1)
	j.ends(9)
	if n := r.got(unix.SIGTERM); n > 2 {
		r.Errorf("TERM came %d times", n)
	}
	r.vacant()
	r.empty()
}

func stopAllDies(r *rig, u unit) {
	j := u.start(r, "--", "sh", "-c", "echo x >running; exec sleep 1000")
	r.await("running")
	u.term(r)
	j.ends(143)
	r.vacant()
	r.empty()
	if said := j.stderr.String(); said != "" {
		r.Errorf("it said:\n%s", said)
	}
}

func stopMixed(r *rig, u unit) {
	j := u.start(r, "--ttl", "12s", "--", "counts", "got")
	r.await("got")
	r.signals(j.cmd.Process.Pid, unix.SIGTERM)
	r.hears(unix.SIGTERM)
	r.run(r.direct, "k", "--", "true").ends(75) // it hasn't ended
	if n := r.got(unix.SIGTERM); n != 1 {
		r.Errorf("TERM came %d times", n)
	}
	u.kill() // TimeoutStopSec is over
	j.ends(137)
	r.vacant("--wait", "1m") // of the guard too nothing is left: the lease has to end
	r.empty()
}

// inside is a command, without a cgroup of its own.
func inside(contained string, command ...string) []string {
	if contained == "nocgroup" {
		return append([]string{"--", "nocgroup"}, command...)
	}
	return append([]string{"--"}, command...)
}
