package cmd

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// descriptorFolder lists the open descriptors.
const descriptorFolder = "/proc/self/fd"

// redirect makes the descriptor to another one for what from is.
func redirect(from, to int) error { return unix.Dup3(from, to, 0) }

// unstoppable keeps a terminal from stopping us for what this goroutine writes from the
// background (stty tostop): that would cost a place in line, or a lease. Ignoring the signal
// would be inherited by the command.
func unstoppable() {
	runtime.LockOSThread()
	var set unix.Sigset_t
	set.Val[0] = 1 << (unix.SIGTTOU - 1)
	unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}
