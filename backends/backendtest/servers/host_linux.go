package servers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StartToDieWithUs starts cmd so that the kernel kills it when this process ends,
// however it ends. What cmd.SysProcAttr asks for beside that, if anything, holds too.
func StartToDieWithUs(cmd *exec.Cmd) error {
	result := make(chan error)
	starter() <- func() { result <- StartToDieWithThread(cmd) }
	return <-result
}

// StartToDieWithThread is the same for the end of the thread that calls it.
func StartToDieWithThread(cmd *exec.Cmd) error {
	var attr syscall.SysProcAttr
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr // a copy: commands may share one
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
	return cmd.Start()
}

// starter runs functions on one thread that lives as long as the process: the death
// of a parent is, to the kernel, that of the thread which started the child, and Go's
// threads may end at any time.
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

// Freeze stops a child of this process, and returns when all of it stands still. It
// fails if the child has ended. Until SIGCONT wakes it, its number is its own.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return awaitStop(pid)
}

// awaitStop returns when every thread of the child stands still. It looks, since a wait has no
// limit, and who is woken meanwhile never stops.
func awaitStop(pid int) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var info unix.Siginfo // stays zero while there is nothing to tell
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR || err == nil && info.Signo == 0:
		case err != nil:
			return fmt.Errorf("wait for the stop: %w", err)
		case info.Code != stopped:
			return errors.New("it ended")
		default:
			return nil
		}
	}
	return fmt.Errorf("%d didn't stop within %v: it is in state %c", pid, limit, state(pid))
}

// stopped is the kernel's CLD_STOPPED.
const stopped = 5

// freezeChildren stops the children of a process that stands still, and so makes no new
// ones; it returns when they stand still as well, or have ended. They aren't ours, so
// only a look at them tells.
func freezeChildren(pid int) error {
	pids := children(pid)
	for _, child := range pids {
		if err := syscall.Kill(child, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stop a child: %w", err)
		}
	}
	end := time.Now().Add(limit)
	for _, child := range pids {
		for !strings.ContainsRune("TZX", state(child)) {
			if time.Now().After(end) {
				return fmt.Errorf("child %d didn't stop within %v", child, limit)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// thawChildren lets the children of a frozen process go on: as long as it stands still,
// their numbers are theirs.
func thawChildren(pid int) {
	for _, child := range children(pid) {
		syscall.Kill(child, syscall.SIGCONT)
	}
}

// children of a process, zombies too.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// state is that of a process whose parent stands still, as in /proc/PID/stat: T for one that
// is stopped, Z for one that has ended.
func state(pid int) rune {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndex(stat, []byte(") ")); i >= 0 {
		return rune(stat[i+2])
	}
	return 'X'
}

// alone starts a server as the account and the first of a space of process numbers: with
// it, the kernel kills whatever it has started, frozen or not. Who isn't root needs a
// space of users for that.
func (a account) alone() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Credential: a.credential(), Cloneflags: syscall.CLONE_NEWPID}
	if a.uid == 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// reserve takes a port among the tests of flockd, by a name in the abstract name
// space: that is one per network name space, as ports are, and is free again when the
// process that holds it ends.
func reserve(port int) (release func(), err error) {
	l, err := net.Listen("unix", fmt.Sprintf("@flockd-test-port-%d", port))
	if err != nil {
		return nil, fmt.Errorf("port is reserved: %w", err)
	}
	return func() { l.Close() }, nil
}
