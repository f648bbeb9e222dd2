package drill

import (
	"runtime"
	"syscall"
)

// apart gives a contender a session of its own. Where the drill is killed, the kernel wakes a
// contender that is frozen, so that it finds out and ends.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGCONT}
}

// start starts it from a thread that lives as long as it: the kernel takes the end of that
// thread for ours.
func (c *contender) start() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.process.Start()
		result <- err
		if err == nil {
			c.process.Wait()
			close(c.exited)
		}
	}()
	return <-result
}
