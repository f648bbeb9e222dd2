//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// moment is a flockd in one of the states.
type moment struct {
	*rig
	state   string
	signal  syscall.Signal
	flockd  int
	command int    // 0: it doesn't run yet
	passed  int    // how many signals it has heard before
	job     *job   // of flockd; nil at a terminal
	goOn    func() // in starting and in line, lets the command start
}

func (m *moment) send(sig syscall.Signal) {
	m.Helper()
	if err := unix.Kill(m.flockd, sig); err != nil {
		m.Fatal(err)
	}
}

// states are the columns of the table.
var states = map[string]func(*testing.T) *moment{
	"starting": func(t *testing.T) *moment {
		m := begin(t)
		m.run(m.via, "k", "true").ends(0)
		m.launch(exec.Command("locker", "flockd.db", "locked", "once"))
		until(m, "a locked store", func() bool { return m.pid("locked") != 0 && state(m.pid("locked")) == 'T' })
		m.goOn = func() { unix.Kill(m.pid("locked"), unix.SIGCONT) }
		m.starts()
		until(m, "flockd asking", func() bool { return argv0(m.flockd) == flockdPath() && catches(m.flockd) })
		return m
	},
	"in line": func(t *testing.T) *moment {
		m := begin(t)
		m.tool("mkfifo", filepath.Join(m.dir, "go"))
		m.run(m.via, "k", "-c", "echo x >held; read -r _ <go")
		m.await("held")
		m.goOn = func() { must(m, os.WriteFile(filepath.Join(m.dir, "go"), []byte("\n"), 0)) }
		m.starts()
		m.said("waiting for k")
		return m
	},
	"runs, no terminal": func(t *testing.T) *moment { return begin(t).runs() },
	"runs, foreground":  func(t *testing.T) *moment { return atTerminal(t, "RUN hears", "") },
	"runs, background":  func(t *testing.T) *moment { return atTerminal(t, "RUN hears &", "") },
	"stopped by Ctrl-Z": func(t *testing.T) *moment { return atTerminal(t, "RUN hears", "\x1a") },
	"being stopped": func(t *testing.T) *moment {
		m := begin(t)
		for limit := 1; m.pid("pid") == 0; limit *= 2 { // the command may be too slow to be deaf
			m.start(flockdPath(), "run", "-b", m.via, "-k", "k", "--max-runtime", strconv.Itoa(limit), "--grace", "1m", "-c", `trap "" TERM; exec hears`)
			until(m, "a command that is deaf or dead", func() bool { return m.pid("pid") != 0 || over(state(m.flockd)) })
		}
		m.command = m.pid("pid")
		m.said("too long")
		return m
	},
	"left-overs": func(t *testing.T) *moment {
		m := begin(t).runs("--leftovers", "wait", "-c", "hears &")
		m.said("waiting for the processes")
		return m
	},
	"lost, warned": func(t *testing.T) *moment {
		m := begin(t).runs("--on-lost", "warn", "--ttl", "12", "hears")
		(&session{rig: m.rig}).lose()
		m.said("warning the command")
		return m
	},
}

func flockdPath() string { return filepath.Join(bin, "flockd") }

func argv0(pid int) string { return strings.SplitN(argv(pid), " ", 2)[0] }

// begin is a moment without a terminal, before flockd is there.
func begin(t *testing.T) *moment {
	t.Helper()
	if tty, err := os.Open("/dev/tty"); err == nil { // whoever tests at a terminal
		must(t, control(tty, func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCNOTTY, 0) }))
		tty.Close()
	}
	return &moment{rig: embedded(t)}
}

// start starts what is flockd, or becomes it.
func (m *moment) start(args ...string) {
	m.Helper()
	hearAll()
	m.job = m.launch(exec.Command(args[0], args[1:]...))
	m.flockd = m.job.cmd.Process.Pid
}

// starts starts a run that has to wait. What comes to its command stays pending there.
func (m *moment) starts() {
	m.Helper()
	m.start("blocked", flockdPath(), "run", "-b", m.via, "-k", "k", "-w", "1m", "-c", "echo $$ >pid; exec sleep 1000")
}

// runs starts a run, by default of the command hears, and waits for that.
func (m *moment) runs(args ...string) *moment {
	m.Helper()
	if len(args) == 0 {
		args = []string{"hears"}
	}
	m.start(append([]string{flockdPath(), "run", "-b", m.via, "-k", "k"}, args...)...)
	m.await("pid")
	m.command = m.pid("pid")
	return m
}

// atTerminal enters a line at a shell, and then some keys, of which the first stops it.
func atTerminal(t *testing.T, line, keys string) *moment {
	s := newSession(t, "bash", locked)
	pid := s.starts(line)
	m := &moment{rig: s.rig, flockd: parent(pid), command: pid}
	if keys != "" {
		s.keys(keys)
		m.bothStopped()
	}
	return m
}

func (m *moment) said(text string) {
	m.Helper()
	until(m, text, func() bool { return strings.Contains(m.job.stderr.String(), text) })
}

// settle waits until all that has come was dealt with: nothing is pending, and nobody is
// at work.
func (m *moment) settle() {
	m.Helper()
	for _, pid := range []int{m.flockd, m.command} {
		for range 3 { // the threads are looked at one after the other
			until(m, "rest", func() bool { return pid == 0 || atRest(pid) })
		}
	}
}

func atRest(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	return !slices.ContainsFunc(threads, func(file string) bool {
		status, _ := os.ReadFile(file)
		stopped := strings.Contains(string(status), "\nState:\tT")
		pending := mask(file, "SigPnd") | mask(file, "ShdPnd")
		return !stopped && (pending != 0 || !strings.Contains(string(status), "\nState:\tS"))
	})
}

func (m *moment) bothStopped() {
	m.Helper()
	until(m, "both stopped", func() bool { return state(m.flockd) == 'T' && state(m.command) == 'T' })
}

func (m *moment) bothGoOn() {
	m.Helper()
	until(m, "both going on", func() bool { return state(m.flockd) != 'T' && state(m.command) != 'T' })
}

func (m *moment) dead(pid int) {
	m.Helper()
	until(m, "dead", func() bool { return over(state(pid)) })
}

func (m *moment) nothingStarted() {
	m.Helper()
	if m.exists("pid") {
		m.Error("the command was started")
	}
}

// record is what the command has heard since the moment began.
func (m *moment) record() []string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "signals"))
	return strings.Fields(string(text))[m.passed:]
}

func (m *moment) forgetHeard() { m.passed += len(m.record()) }

// hears waits until the command has heard a signal.
func (m *moment) hears(sig syscall.Signal) {
	m.Helper()
	until(m, "the command hears "+unix.SignalName(sig), func() bool { return slices.Contains(m.record(), unix.SignalName(sig)) })
}

// heard wants the command to hear these signals, once, and then the next that is sent;
// and nobody to be stopped or dead.
func (m *moment) heard(want ...syscall.Signal) {
	m.Helper()
	for _, sig := range want {
		m.hears(sig)
	}
	m.settle()
	m.send(m.next())
	m.hears(m.next())
	var names []string
	for _, sig := range append(want, m.next()) {
		names = append(names, unix.SignalName(sig))
	}
	if got := m.record(); !slices.Equal(got, names) {
		m.Errorf("it heard %q, not %q", got, names)
	}
}

// next is a signal that always comes to the command, and isn't the moment's.
func (m *moment) next() syscall.Signal {
	if m.signal == syscall.SIGUSR1 {
		return syscall.SIGUSR2
	}
	return syscall.SIGUSR1
}

// pends reports whether a signal has come to the command, which has it blocked.
func (m *moment) pends(sig syscall.Signal) bool {
	return mask(fmt.Sprintf("/proc/%d/status", m.pid("pid")), "ShdPnd")&(1<<(sig-1)) != 0
}

// hears is a command that writes its number to the file pid, and the signals that come to
// signals, until it is killed.
func hears() {
	came := make(chan os.Signal, 100)
	signal.Notify(came, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	file, err := os.OpenFile("signals", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fatal(err)
	fatal(os.WriteFile("pid", []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600))
	for sig := range came {
		_, err := fmt.Fprintln(file, unix.SignalName(sig.(syscall.Signal)))
		fatal(err)
	}
}

// blocked runs a command to which USR1, USR2, WINCH and CONT stay pending.
func blocked() {
	runtime.LockOSThread()
	var set unix.Sigset_t
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT} {
		set.Val[0] |= 1 << (sig - 1)
	}
	fatal(unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil))
	fatal(syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
}
