package servers

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartToDieWithUs starts cmd so that the kernel kills it when this process ends,
// however it ends. What cmd.SysProcAttr asks for beside that, if anything, holds too.
func StartToDieWithUs(cmd *exec.Cmd) error {
	var attr syscall.SysProcAttr
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr // a copy: commands may share one
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
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

// awaitStop returns when every thread of the child stands still.
func awaitStop(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the stop: %w", err)
		}
		if info.Code != stopped {
			return errors.New("it ended")
		}
		return nil
	}
}

// stopped is the kernel's CLD_STOPPED.
const stopped = 5

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
