//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// hearAll stops ignoring what a session would inherit as ignored: a shell's background
// job is deaf to Ctrl-C.
func hearAll() {
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// openTerminal opens a pseudo-terminal and its other end.
func openTerminal(t interface {
	Helper()
	Fatal(...any)
}) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var number int
	control(pty, func(fd int) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
	})
	fatal(err)
	tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	control(pty, func(fd int) {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	})
	fatal(err)
	return pty, tty
}

// control works on a file's descriptor, and leaves reads of it able to be ended.
func control(file *os.File, do func(fd int)) {
	raw, err := file.SyscallConn()
	fatal(err)
	raw.Control(func(fd uintptr) { do(int(fd)) })
}
