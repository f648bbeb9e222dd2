package runner

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"flockd/runner/tty"
)

// caughtStops are what a terminal stops a job with, and a program may catch.
var caughtStops = []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN}

// handlers are package os/signal's of caughtStops, once it has caught them: it takes them for
// there ever since, whatever we do. beforeIgnore is what TTOU was.
var (
	handlers     = map[syscall.Signal]*disposition{}
	beforeIgnore *disposition
)

// catchStops keeps what a terminal sends to a whole group from stopping us: that has
// to wait until the lease is in other hands. What was ignored stays so. What is caught
// here, the command doesn't inherit. After letStops a run may follow in this process.
func catchStops(t *tty.Terminal, caught chan<- os.Signal) {
	if t == nil {
		return
	}
	for _, sig := range caughtStops {
		if ignored(sig) {
			continue
		}
		if h := handlers[sig]; h != nil {
			act(sig, h, nil)
		}
		signal.Notify(caught, sig)
	}
}

// ignoreOutput keeps the terminal from stopping us when we give it back from the background.
func ignoreOutput() {
	var before disposition
	if act(syscall.SIGTTOU, nil, &before) {
		beforeIgnore = &before
	}
	signal.Ignore(syscall.SIGTTOU)
}

// letStops ends what catchStops and ignoreOutput have begun: the terminal stops us as any other
// job. Package os/signal alone would leave its handlers, which swallow what comes.
func letStops(caught chan<- os.Signal) {
	signal.Stop(caught)
	var byDefault disposition
	for _, sig := range caughtStops {
		var h disposition
		if !ignored(sig) && act(sig, nil, &h) && h != byDefault {
			handlers[sig] = &h
			act(sig, &byDefault, nil)
		}
	}
	if beforeIgnore != nil {
		act(syscall.SIGTTOU, beforeIgnore, nil)
		beforeIgnore = nil
	}
}

// ignored reports whether a signal is ignored, as the kernel has it: of these package
// os/signal knows nothing. On MIPS, where other fields come first, none is.
func ignored(sig syscall.Signal) bool {
	const ignore = 1 // SIG_IGN
	var now disposition
	return act(sig, nil, &now) && now[0] == ignore
}

// stopped returns the signal that has stopped the command since the last call, or 0.
// Without a terminal there is no shell that waits for us to stop as well.
func (ch *child) stopped() syscall.Signal {
	if ch.tty == nil || !ch.end.IsZero() {
		return 0
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, ch.process.Pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	if err != nil || info.Signo == 0 {
		return 0
	}
	// After three numbers, and a gap where pointers are of 8 bytes, come the pid, the uid
	// and the status: see siginfo_t in sigaction(2).
	const pid = 3*unsafe.Sizeof(info.Signo) + unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(info.Signo)
	status := *(*int32)(unsafe.Add(unsafe.Pointer(&info), pid+2*unsafe.Sizeof(info.Signo)))
	return syscall.Signal(status)
}

// stopSelf stops this process by a signal, as one that doesn't catch it, and returns when
// it goes on; at once if the kernel doesn't stop it, as in an orphaned process group.
// package os/signal can't do it: a signal that was caught once is never again what it was.
func stopSelf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault, ours disposition
	if !act(sig, &byDefault, &ours) {
		return
	}
	defer act(sig, &ours, nil)
	unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}

// disposition is room for the kernel's struct sigaction. The zero one is the default,
// whatever the fields are, and what one call has filled in another may take.
type disposition [16]uint64

// act is rt_sigaction(2).
func act(sig syscall.Signal, now, before *disposition) bool {
	const setSize = 8 // of the kernel's sigset_t; MIPS, which has 16, says EINVAL, and is not stopped
	if sig == syscall.SIGSTOP {
		return true // nobody can act otherwise
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(now)), uintptr(unsafe.Pointer(before)), setSize, 0, 0)
	return errno == 0
}
