package election

import (
	"fmt"
	"os"
	"syscall"
)

// ResignedError says that a signal told the candidate to end.
type ResignedError struct{ Signal syscall.Signal }

func (e *ResignedError) Error() string { return fmt.Sprintf("told to resign by signal %d", e.Signal) }

// resigns reports whether a signal tells the candidate to end, rather than its command something:
// with a terminal, that the terminal is gone, or a key was typed.
func resigns(sig os.Signal, terminal bool) bool {
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT:
		return true
	case syscall.SIGHUP, syscall.SIGQUIT:
		return terminal
	}
	return false
}

// passedKept is how many signals wait for a command that is busy with its own start: as many as
// package signals keeps.
const passedKept = 32

// heard follows a signal that came to this process.
func (c *candidate) heard(sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case !resigns(sig, c.o.Terminal):
		c.pass(sig)
	case c.resigned != nil:
		c.hurryUp()
	default:
		c.resigned = &ResignedError{n}
		c.stop(c.resigned)
	}
}

// pass hands a signal to the command that runs. Where none does, nobody is told: a reload
// is not for those who stand in line.
func (c *candidate) pass(sig os.Signal) {
	if c.passed == nil {
		return
	}
	select {
	case c.passed <- sig:
	default: // as the kernel, which keeps one of each
	}
}

// hurryUp has a stop of the command kill it at once.
func (c *candidate) hurryUp() {
	if c.hurry != nil {
		close(c.hurry)
		c.hurry = nil
	}
}

// hearAll follows the signals that have come already: the one that ended the command may be among
// them.
func (c *candidate) hearAll() {
	for {
		select {
		case sig, ok := <-c.signals:
			if !ok {
				c.signals = nil
				return
			}
			c.heard(sig)
		default:
			return
		}
	}
}
