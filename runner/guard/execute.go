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
	pid, err := syscall.ForkExec(self(), []string{GiveBackName}, &syscall.ProcAttr{Files: []uintptr{uintptr(pipe[0]), 1, 2}})
	unix.Close(pipe[0])
	for rest := legacy; err == nil && len(rest) > 0; {
		var n int
		if n, err = unix.Write(pipe[1], rest); err == unix.EINTR {
			err = nil
		}
		rest = rest[max(n, 0):]
	}
	unix.Close(pipe[1])
	var status syscall.WaitStatus
	for err == nil {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err == nil {
			return status.ExitStatus() == 0
		}
		if err == syscall.EINTR {
			err = nil
		}
	}
	return false
}
