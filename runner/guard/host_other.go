//go:build unix && !linux

package guard

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// host is what a guard needs of its system.
type host struct{}

func newHost() *host { return &host{} }

// settle makes the process deaf.
func settle() {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
}

// now reads CLOCK_MONOTONIC, as flockd does here. On some systems it stands still in
// suspend.
func (h *host) now(Orders) time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// wait returns when fd can be read, and reports that, or after d, or where the
// orders' deadline counts, at that.
func (h *host) wait(fd int, d time.Duration, deadline bool, o Orders) bool {
	if deadline {
		d = min(d, o.Kill-h.now(o))
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, milliseconds(d))
	return err == nil && n > 0
}

// Title does nothing here.
func Title(string) {}

// Stopped reports whether a child of ours is known to be stopped: never here.
func Stopped(int) bool { return false }

// Program is this program.
func Program() string {
	path, _ := os.Executable()
	return path
}
