package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// session is a flockd and all that it runs: it leads a session of its own, which
// the probes don't leave.
type session int

// startSession starts cmd as the leader of a session. It dies with this process,
// however that ends.
func startSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

// starter runs functions on one thread that lives as long as the process: to the
// kernel it is the thread that is the parent, and Go's threads may end at any time.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// members are the numbers of its live processes but the leader.
func (s session) members() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != int(s) && s.has(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s session) has(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // state, parent, group, session
	return len(fields) > 3 && string(fields[3]) == strconv.Itoa(int(s)) && fields[0][0] != 'Z' && fields[0][0] != 'X'
}

// stop stops the leader, and reports whether it stands still. It has not ended then,
// and its number is its own until it is woken.
func (s session) stop() bool {
	if syscall.Kill(int(s), syscall.SIGSTOP) != nil {
		return false
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, int(s), &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil && info.Code == stopped
		}
	}
}

// stopped is the kernel's CLD_STOPPED.
const stopped = 5

// freeze stops all of it, the leader first, so that nothing is started any more.
func (s session) freeze() bool {
	if !s.stop() {
		return false
	}
	s.signal(syscall.SIGSTOP)
	return true
}

// thaw wakes all of it.
func (s session) thaw() {
	syscall.Kill(int(s), syscall.SIGCONT)
	s.signal(syscall.SIGCONT)
}

func (s session) signal(sig syscall.Signal) {
	for _, pid := range s.members() {
		syscall.Kill(pid, sig)
	}
}

// kill ends all of it, as the end of a host would: flockd doesn't live to see its
// command end.
func (s session) kill() bool {
	if !s.stop() {
		return false
	}
	for pids := s.members(); len(pids) > 0; pids = s.members() {
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return syscall.Kill(int(s), syscall.SIGKILL) == nil
}
