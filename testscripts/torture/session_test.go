//go:build linux

package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"flockd/backends/backendtest/servers"
)

// session is a flockd and all that it runs: it leads a session of its own, which
// the probes don't leave.
type session int

// startSession starts cmd as the leader of a session. It dies with this process,
// however that ends.
func startSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return servers.StartToDieWithUs(cmd)
}

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
func (s session) stop() bool { return servers.Freeze(int(s)) == nil }

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
