//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counts is a command that writes the name of each signal to a file, and ends with 9 at
// USR1: counts FILE.
func counts() {
	got := make(chan os.Signal, 100)
	signal.Notify(got, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGCONT, unix.SIGUSR1)
	file, err := os.Create(os.Args[1])
	fatal(err)
	fmt.Fprintln(file, "ready")
	for sig := range got {
		fmt.Fprintln(file, unix.SignalName(sig.(syscall.Signal)))
		if sig == unix.SIGUSR1 {
			os.Exit(9)
		}
	}
}

// got is how often a signal came to counts, which writes to the file got.
func (r *rig) got(sig syscall.Signal) int {
	text, _ := os.ReadFile(filepath.Join(r.dir, "got"))
	return strings.Count(string(text), unix.SignalName(sig)+"\n")
}

// hears waits until a signal has come to counts.
func (r *rig) hears(sig syscall.Signal) {
	r.Helper()
	until(r, "it gets "+unix.SignalName(sig), func() bool { return r.got(sig) > 0 })
}

// wrapped starts flockd by another program.
func (r *rig) wrapped(by string, args ...string) *job {
	r.Helper()
	words := append(strings.Fields(by), filepath.Join(bin, "flockd"), "run", "--backend", r.direct, "--key", "k")
	words = append(words, args...)
	path, err := exec.LookPath(words[0])
	fatal(err)
	cmd := exec.Command(path, words[1:]...)
	return r.launch(cmd)
}

// only is the one child of a job.
func (j *job) only() (child int) {
	j.r.Helper()
	until(j.r, "a child", func() bool {
		if pids := children(j.cmd.Process.Pid); len(pids) == 1 {
			child = pids[0]
		}
		return child != 0 && strings.Contains(argv(child), "flockd run ")
	})
	return child
}

// vacant wants the key to be free now, or before its lease would have ended.
func (r *rig) vacant(wait ...string) {
	r.Helper()
	r.run(r.direct, "k", append(wait, "--", "true")...).ends(0)
}

// empty wants nobody to be left who works in the folder.
func (r *rig) empty() {
	r.Helper()
	until(r, "nobody is left", func() bool {
		return len(processes(func(pid int) bool {
			cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
			return cwd == r.dir
		})) == 0
	})
}

// timeout(1) signals its child and then its group, so that a command may get TERM twice,
// with and without flockd.
func TestTimeout(t *testing.T) {
	for name, wrapper := range map[string]string{"TERM": "timeout 2", "foreground": "timeout --foreground 2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			j := r.wrapped(wrapper, "--", "counts", "got")
			r.hears(unix.SIGTERM)
			fatal(syscall.Kill(j.only(), unix.SIGUSR1))
			j.ends(124)
			if n := r.got(unix.SIGTERM); n > 2 || name == "foreground" && n > 1 {
				t.Errorf("%d times TERM", n)
			}
			r.vacant()
			r.empty()
		})
	}
	t.Run("KILL", func(t *testing.T) {
		t.Parallel()
		r := embedded(t)
		r.wrapped("timeout -k 1 1", "--", "counts", "got").ends(137)
		r.vacant("--wait", "20s")
		r.empty()
		if r.got(unix.SIGTERM) == 0 {
			t.Error("no TERM came before KILL")
		}
	})
}

// unit is a cgroup as a service has it.
type unit struct{ folder string }

func newUnit(t *testing.T) unit {
	u := unit{filepath.Join(ownCgroup(), fmt.Sprintf("unit-%d-%d", os.Getpid(), time.Now().UnixNano()))}
	fatal(os.Mkdir(u.folder, 0o755))
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
	inner, err := filepath.Glob(filepath.Join(u.folder, "*", "cgroup.procs"))
	fatal(err)
	for i := range inner {
		inner[i] = filepath.Dir(inner[i])
	}
	return inner
}

func (u unit) members() (pids []int) {
	for _, folder := range append(u.folders(), u.folder) {
		text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			fatal(err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// term sends TERM to everybody, as KillMode=control-group does.
func (u unit) term() {
	for _, pid := range u.members() {
		syscall.Kill(pid, unix.SIGTERM)
	}
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
	for _, contained := range []string{"flockd", "nocgroup"} {
		t.Run("control-group "+contained, func(t *testing.T) {
			t.Parallel()
			r, u := embedded(t), newUnit(t)
			j := u.start(r, inside(contained, "counts", "got")...)
			r.await("got")
			u.term()
			r.hears(unix.SIGTERM)
			fatal(syscall.Kill(j.cmd.Process.Pid, unix.SIGHUP))
			r.hears(unix.SIGHUP) // what is passed on, is in its turn
			fatal(syscall.Kill(j.cmd.Process.Pid, unix.SIGUSR1))
			j.ends(9)
			if n := r.got(unix.SIGTERM); n != 1 {
				t.Errorf("TERM came %d times", n)
			}
			r.vacant()
			r.empty()
		})
	}
	t.Run("control-group, dies", func(t *testing.T) {
		t.Parallel()
		r, u := embedded(t), newUnit(t)
		j := u.start(r, "--", "sh", "-c", "echo x >running; exec sleep 1000")
		r.await("running")
		u.term()
		j.ends(143)
		r.vacant()
		r.empty()
		if said := j.stderr.String(); said != "" {
			t.Errorf("it said:\n%s", said)
		}
	})
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		r, u := embedded(t), newUnit(t)
		j := u.start(r, "--ttl", "2s", "--", "counts", "got")
		r.await("got")
		fatal(syscall.Kill(j.cmd.Process.Pid, unix.SIGTERM))
		r.hears(unix.SIGTERM)
		r.run(r.direct, "k", "--", "true").ends(75) // it hasn't ended
		if n := r.got(unix.SIGTERM); n != 1 {
			t.Errorf("TERM came %d times", n)
		}
		u.kill() // TimeoutStopSec is over
		j.ends(137)
		r.vacant("--wait", "30s") // of the guard too nothing is left: the lease has to end
		r.empty()
	})
}

// inside is a command, without a cgroup of its own.
func inside(contained string, command ...string) []string {
	if contained == "nocgroup" {
		return append([]string{"--", "nocgroup"}, command...)
	}
	return append([]string{"--"}, command...)
}

// A CI job that is cancelled: INT to the shell that runs its script, TERM to it, and
// then KILL to what is left of the tree, which is found by a variable of the runner's, or by
// descent, the guard included.
func TestCancel(t *testing.T) {
	script := "flockd run --backend $STORE --key k --ttl 3s --result-file result.json -- awkward double .\necho never >after\n"
	for _, by := range []string{"variable", "descent"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			fatal(os.WriteFile(filepath.Join(r.dir, "script.sh"), []byte(script), 0o600))
			cmd := exec.Command("bash", "-e", "script.sh")
			cmd.Env = []string{"STORE=" + r.direct, "TRACKING=" + r.dir}
			j := r.launch(cmd)
			r.await("first")
			r.await("rest")
			flockd := j.only()
			until(r, "a guard", func() bool { return guardOf(flockd) != 0 })
			fatal(syscall.Kill(cmd.Process.Pid, unix.SIGINT)) // bash waits for its child
			r.run(r.direct, "k", "--", "touch", "ran").ends(75)
			tree := descendants(cmd.Process.Pid)
			fatal(syscall.Kill(cmd.Process.Pid, unix.SIGTERM))
			j.ends(143)
			r.run(r.direct, "k", "--", "touch", "ran").ends(75)
			if by == "variable" {
				tree = processes(func(pid int) bool {
					env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
					return strings.Contains(string(env), "TRACKING="+r.dir+"\x00")
				})
			}
			for _, pid := range tree {
				syscall.Kill(pid, unix.SIGKILL)
			}
			r.vacant("--wait", "30s")
			for _, stamps := range []string{"first", "rest"} {
				if pid := int(r.number(stamps + ".pid")); by == "variable" && !over(state(pid)) {
					t.Errorf("%s lives", stamps)
				}
			}
			if r.exists("ran") || r.exists("after") {
				t.Error("something ran that shouldn't have")
			}
		})
	}
}

// descendants of a process, itself included.
func descendants(pid int) []int {
	all := []int{pid}
	for _, child := range children(pid) {
		all = append(all, descendants(child)...)
	}
	return all
}

// As process 1 flockd gets the signals that the kernel keeps from a process 1 which
// doesn't catch them, and the orphans; with it everybody dies.
func TestProcess1(t *testing.T) {
	for _, contained := range []string{"", "nocgroup "} {
		wrapper := "unshare -pfm --mount-proc " + contained
		for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
			t.Run(contained+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				r := embedded(t)
				j := r.wrapped(wrapper, "--", "sh", "-c", "echo x >running; exec sleep 1000")
				r.await("running")
				fatal(syscall.Kill(j.only(), sig))
				j.ends(128 + int(sig))
				r.vacant()
				r.empty()
				if said := j.stderr.String(); said != "" {
					t.Errorf("it said:\n%s", said)
				}
			})
		}
		t.Run(contained+"KILL", func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			j := r.wrapped(wrapper, "--ttl", "2s", "--", "awkward", "wiped", ".")
			r.await("first")
			r.await("rest")
			fatal(syscall.Kill(j.only(), unix.SIGKILL))
			<-j.done
			r.vacant("--wait", "30s")
			r.empty()
		})
		t.Run(contained+"orphans", func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			j := r.wrapped(wrapper, "--", "sh", "-c",
				`for n in $(seq 50); do (sh -c 'exec true' &); done; echo x >running; trap 'exit 3' TERM; while :; do sleep 1000 & wait $!; done`)
			r.await("running")
			flockd := j.only()
			until(t, "no orphan is left", func() bool {
				return len(children(flockd)) == 2 // guard and command
			})
			fatal(syscall.Kill(flockd, unix.SIGTERM))
			j.ends(3)
			r.vacant()
			r.empty()
		})
	}
}
