//go:build linux

package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"flockd/backends/backendtest/servers"
	"flockd/runner/tree"
	"flockd/testscripts/torture/trace"
)

// session is a flockd and all that it runs: it leads a session of its own. A probe that
// leaves it says so, and the guard is flockd's child.
type session int

// startSession starts cmd as the leader of a session. It dies with this process,
// however that ends.
func startSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return servers.StartToDieWithUs(cmd)
}

// startBare does the same for a flockd that can't make a cgroup: it sees them read-only.
func startBare(cmd *exec.Cmd) error {
	calls, err := bareThread()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	calls <- func() { result <- cmd.Start() }
	return <-result
}

// bareThread runs functions on one thread, in a mount namespace of its own.
var bareThread = sync.OnceValues(func() (chan<- func(), error) {
	calls, made := make(chan func()), make(chan error)
	go func() {
		runtime.LockOSThread()
		made <- leaveCgroups()
		for call := range calls {
			call()
		}
	}()
	return calls, <-made
})

// leaveCgroups makes the cgroups read-only for this thread alone. It needs root.
func leaveCgroups() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	mounts, err := os.ReadFile("/proc/thread-self/mounts")
	for line := range bytes.Lines(mounts) {
		fields := strings.Fields(string(line)) // what is mounted, where, of which kind
		if err == nil && fields[2] == "cgroup2" {
			err = unix.Mount("", fields[1], "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}
	}
	return err
}

// members are the numbers of the command's live processes, also of those that have
// left the session.
func (s session) members() (pids []int) {
	for _, pid := range processes() {
		if pid != int(s) && s.has(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes are the numbers of all processes of the host.
func processes() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// has reports whether a process is of the session, or says that it has left it, and
// isn't dead.
func (s session) has(pid int) bool {
	text, err := os.ReadFile(of(pid, "stat"))
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // state, parent, group, session
	if len(fields) < 4 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return false
	}
	if string(fields[3]) == strconv.Itoa(int(s)) {
		return true
	}
	name := string(text[bytes.IndexByte(text, '(')+1 : bytes.LastIndexByte(text, ')')])
	return (name == "probe" || name == "sh") && s.left(pid) // a second look at everybody would take long
}

// left reports whether a process says that it, or who it starts, has left the session.
func (s session) left(pid int) bool {
	text, _ := os.ReadFile(of(pid, "cmdline"))
	return bytes.Contains(text, fmt.Appendf(nil, "\x00%s=%d\x00", trace.Session, s))
}

func of(pid int, file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }

// guard is the number of the process that watches over the command; 0: none does.
func (s session) guard() int {
	threads, _ := filepath.Glob(of(int(s), "task/*/children"))
	for _, thread := range threads {
		children, _ := os.ReadFile(thread)
		for child := range bytes.FieldsSeq(children) {
			pid, _ := strconv.Atoi(string(child))
			if text, _ := os.ReadFile(of(pid, "cmdline")); bytes.HasPrefix(text, []byte(tree.GuardName+"\x00")) {
				return pid
			}
		}
	}
	return 0
}

// all are the members and the guard.
func (s session) all() []int {
	pids := s.members()
	if guard := s.guard(); guard != 0 {
		pids = append(pids, guard)
	}
	return pids
}

// stop stops the leader, and reports whether it stands still. It has not ended then,
// and its number is its own until it is woken.
func (s session) stop() bool { return servers.Freeze(int(s)) == nil }

// wake lets the leader go on.
func (s session) wake() { syscall.Kill(int(s), syscall.SIGCONT) }

// standstill is a session of which all stands still.
type standstill struct {
	session
	rest []int
}

// freeze stops all of it, the leader first, so that nothing is started any more.
func (s session) freeze() (f standstill, ok bool) {
	if !s.stop() {
		return standstill{}, false
	}
	f = standstill{s, s.all()}
	signalAll(f.rest, syscall.SIGSTOP)
	return f, true
}

// thaw wakes who was stopped: one that was on its way out of the session doesn't say yet that it
// was of it.
func (f standstill) thaw() {
	f.wake()
	signalAll(f.rest, syscall.SIGCONT)
}

// end kills who was stopped. It is for those whose time is nearly up: a look for others can take
// a busy host seconds.
func (f standstill) end() { signalAll(f.rest, syscall.SIGKILL) }

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, sig)
	}
}

// kill ends all of it, as the end of a host would: neither flockd nor the guard lives
// to see the command end.
func (s session) kill() bool {
	if !s.stop() {
		return false
	}
	for pids := s.all(); len(pids) > 0; pids = s.all() {
		signalAll(pids, syscall.SIGKILL)
	}
	return syscall.Kill(int(s), syscall.SIGKILL) == nil
}
