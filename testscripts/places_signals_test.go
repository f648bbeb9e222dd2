//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	return r.launch(exec.Command(words[0], words[1:]...))
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

// signals sends a signal to a process.
func (r *rig) signals(pid int, sig syscall.Signal) {
	r.Helper()
	must(r, syscall.Kill(pid, sig))
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
		return len(processes(func(pid int) bool { return within(pid, r.dir) })) == 0
	})
}

// timeout(1) signals its child and then its group, so that a command may get TERM twice,
// with and without flockd. What it may take is doubled until the command is there in time.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, wrapper := range map[string]string{"TERM": "timeout", "foreground": "timeout --foreground"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := embedded(t)
			var j *job
			for limit := 1; !r.exists("got"); limit *= 2 {
				j = r.wrapped(fmt.Sprint(wrapper, " ", limit), "--", "counts", "got")
				until(t, "a command, or its end", func() bool { return r.exists("got") || j.over() })
			}
			r.hears(unix.SIGTERM)
			r.signals(j.only(), unix.SIGUSR1)
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
		status := 0
		for limit := 1; r.got(unix.SIGTERM) == 0 && limit < 30; limit *= 2 {
			status = r.wrapped(fmt.Sprintf("timeout -k %d %d", limit, limit), "--", "counts", "got").status()
			r.vacant("--wait", patience.String())
		}
		r.empty()
		if status != 137 || r.got(unix.SIGTERM) == 0 {
			t.Errorf("status %d, %d times TERM before KILL", status, r.got(unix.SIGTERM))
		}
	})
}

// As process 1 flockd gets the signals that the kernel keeps from a process 1 which
// doesn't catch them, and the orphans; with it everybody dies.
func TestProcess1(t *testing.T) {
	t.Parallel()
	for _, contained := range []string{"", "nocgroup "} {
		wrapper := "unshare -pfm --mount-proc " + contained
		for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
			t.Run(contained+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				endsOf1(embedded(t), wrapper, sig)
			})
		}
		t.Run(contained+"KILL", func(t *testing.T) {
			t.Parallel()
			killed1(embedded(t), wrapper)
		})
		t.Run(contained+"orphans", func(t *testing.T) {
			t.Parallel()
			orphansOf1(embedded(t), wrapper)
		})
	}
}

func endsOf1(r *rig, wrapper string, sig syscall.Signal) {
	j := r.wrapped(wrapper, "--", "sh", "-c", "echo x >running; exec sleep 1000")
	r.await("running")
	r.signals(j.only(), sig)
	j.ends(128 + int(sig))
	r.vacant()
	r.empty()
	if said := j.stderr.String(); said != "" {
		r.Errorf("it said:\n%s", said)
	}
}

func killed1(r *rig, wrapper string) {
	j := r.wrapped(wrapper, "--ttl", "12s", "--", "awkward", "wiped", ".")
	r.await("first")
	r.await("rest")
	r.signals(j.only(), unix.SIGKILL)
	j.status()
	r.vacant("--wait", "1m")
	r.empty()
}

func orphansOf1(r *rig, wrapper string) {
	j := r.wrapped(wrapper, "--", "sh", "-c",
		`for n in $(seq 50); do (sh -c 'exec true' &); done; echo x >running; trap 'exit 3' TERM; while :; do sleep 1000 & wait $!; done`)
	r.await("running")
	flockd := j.only()
	until(r, "no orphan is left", func() bool {
		return len(children(flockd)) == 2 // guard and command
	})
	r.signals(flockd, unix.SIGTERM)
	j.ends(3)
	r.vacant()
	r.empty()
}
