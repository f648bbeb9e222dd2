//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package runner

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// fork starts the command. These systems don't kill it with its parent: the guard does.
func (ch *child) fork(l launch) error {
	return ch.begin(l, &syscall.SysProcAttr{Setpgid: ch.tty == nil})
}

// exiting tells when a child has exited, and doesn't reap it: until then the number of
// the process, and of its group, names no other.
type exiting struct {
	queue int // a kqueue; -1: none, as after the event
	gone  bool
}

func (e *exiting) expect(pid int) {
	var err error
	if e.queue, err = unix.Kqueue(); err != nil {
		e.queue = -1
		return
	}
	unix.CloseOnExec(e.queue)
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD)
	change[0].Fflags = unix.NOTE_EXIT
	_, err = unix.Kevent(e.queue, change, nil, nil)
	e.gone = err == unix.ESRCH // it was a zombie already
}

func (e *exiting) exited(int) bool {
	if !e.gone && e.queue >= 0 {
		n, err := unix.Kevent(e.queue, nil, make([]unix.Kevent_t, 1), &unix.Timespec{})
		e.gone = err == nil && n == 1
	}
	if e.gone && e.queue >= 0 {
		unix.Close(e.queue)
		e.queue = -1
	}
	return e.gone
}
