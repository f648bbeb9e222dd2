//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hearAll stops ignoring what a session would inherit as ignored: a shell's background
// job is deaf to Ctrl-C.
func hearAll() {
	ignored := mask("/proc/self/status", "SigIgn") // signal.Ignored knows of HUP and INT alone
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if ignored&(1<<(sig-1)) != 0 {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// openTerminal opens a pseudo-terminal and its other end.
func openTerminal(t testing.TB) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	var number int
	must(t, control(pty, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	}))
	tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, resize(pty, 24, 80))
	return pty, tty
}

func resize(pty *os.File, rows, cols uint16) error {
	return control(pty, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// control works on a file's descriptor, and leaves reads of it able to be ended.
func control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	if outer := raw.Control(func(fd uintptr) { err = do(int(fd)) }); outer != nil {
		return outer
	}
	return err
}
