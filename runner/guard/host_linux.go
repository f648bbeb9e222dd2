package guard

import (
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// title is what pkill(1) and killall(1) go by: "pkill -9 flockd" has to spare the
// guard.
const title = "lockguard"

// host is what a guard needs of its system.
type host struct {
	timer     int // a timerfd, of the clock below; -1: none
	monotonic bool
}

func newHost() *host { return &host{timer: -1} }

// settle makes the process deaf, and lets it run before others where that is
// allowed. What it starts runs as others do.
func settle() {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGVTALRM, unix.SIGXCPU)
	Title(title)
	param := struct{ priority int32 }{1}
	unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO|unix.SCHED_RESET_ON_FORK, uintptr(unsafe.Pointer(&param)))
}

func (o Orders) clock() int32 {
	if o.Monotonic {
		return unix.CLOCK_MONOTONIC
	}
	return unix.CLOCK_BOOTTIME
}

func (h *host) now(o Orders) time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(o.clock(), &ts)
	return time.Duration(ts.Nano())
}

// wait returns when fd can be read, and reports that, or after d, or where the
// orders' deadline counts, at that. The timer is one of the orders' clock, so that it
// has run out when the host wakes from suspend.
func (h *host) wait(fd int, d time.Duration, deadline bool, o Orders) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}}
	if deadline {
		if h.set(o) {
			fds[1].Fd = int32(h.timer)
		} else {
			d = min(d, o.Kill-h.now(o))
		}
	}
	n, err := unix.Poll(fds, milliseconds(d))
	return err == nil && n > 0 && fds[0].Revents != 0
}

// set sets the timer to the deadline.
func (h *host) set(o Orders) bool {
	if h.timer < 0 || h.monotonic != o.Monotonic {
		if h.timer >= 0 {
			unix.Close(h.timer)
		}
		h.timer, _ = unix.TimerfdCreate(int(o.clock()), unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		h.monotonic = o.Monotonic
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(o.Kill), 1))}
	return h.timer >= 0 && unix.TimerfdSettime(h.timer, unix.TFD_TIMER_ABSTIME, &at, nil) == nil
}

// Title sets what ps(1) and pkill(1) go by, of 15 bytes: a process that was started as
// Program would be "exe".
func Title(name string) {
	text := append([]byte(name), 0)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
}

// Stopped reports whether a child of ours is known to be stopped.
func Stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// Program is this program, also where its file was replaced meanwhile.
func Program() string { return "/proc/self/exe" }
