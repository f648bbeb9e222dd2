//go:build unix

package guard

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// GiveBackName is argv[0] of a program that carries out a legacy.
const GiveBackName = "flockd-giveback"

// execute starts this program to carry out the legacy, and reports whether it did. The legacy
// holds secrets: it goes through a pipe.
func (h *host) execute(legacy []byte) bool {
	var pipe [2]int
	if syscall.Pipe(pipe[:]) != nil {
		return false
	}
	unix.CloseOnExec(pipe[0])
	unix.CloseOnExec(pipe[1])
	pid, err := syscall.ForkExec(Program(), []string{GiveBackName}, &syscall.ProcAttr{Files: []uintptr{uintptr(pipe[0]), 1, 2}})
	unix.Close(pipe[0])
	if err == nil {
		writeAll(pipe[1], legacy)
	}
	unix.Close(pipe[1])
	var status syscall.WaitStatus
	for err == nil {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err == nil {
			return done(status)
		}
		if err == syscall.EINTR {
			err = nil
		}
	}
	return false
}

// done reports whether to try again would be of no use.
func done(status syscall.WaitStatus) bool {
	const noLegacy = 64
	return status.ExitStatus() == 0 || status.ExitStatus() == noLegacy
}

// writeAll stops at an error: its reader finds half of a legacy, and does nothing.
func writeAll(fd int, text []byte) {
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil && err != unix.EINTR {
			return
		}
		text = text[max(n, 0):]
	}
}
