package runner

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// fork starts the command from a thread that lives as long as it: one with a guard is
// killed by the kernel as well when that thread ends, which it else may do at any time
// (go.dev/issue/27505).
func (ch *child) fork(l launch) error {
	sys := &syscall.SysProcAttr{Setpgid: ch.tty == nil}
	if l.guard != nil {
		sys.Pdeathsig = syscall.SIGKILL
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result <- ch.begin(l, sys)
		<-ch.reaped
	}()
	return <-result
}

// exiting tells when a child has exited.
type exiting struct{}

func (exiting) expect(int) {}

// exited looks without waiting and without reaping: a blocking waitid holds up
// every other goroutine for some ms where there is one processor, and until it is
// reaped the number of the process, and of its group, names no other.
func (exiting) exited(pid int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			// ECHILD: somebody else has reaped it.
			return err == unix.ECHILD || err == nil && info.Signo != 0
		}
	}
}
