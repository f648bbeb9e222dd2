//go:build unix && !linux

package drill

import "syscall"

// apart gives a contender a session of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (c *contender) start() error {
	if err := c.process.Start(); err != nil {
		return err
	}
	go func() {
		c.process.Wait()
		close(c.exited)
	}()
	return nil
}
