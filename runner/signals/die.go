package signals

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// DieOf ends this process by a signal, so that a shell and its scripts stop as they would
// if that had come to the command itself. Where the signal doesn't end us it returns the
// exit code that stands for it.
func DieOf(sig syscall.Signal) (code int) {
	code = 128 + int(sig)
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM:
	default:
		return code // the runtime would swallow it, or print its goroutines
	}
	if os.Getpid() == 1 {
		return code // the first process of a container can't die of a signal
	}
	signal.Reset(sig)
	if syscall.Kill(syscall.Getpid(), sig) == nil {
		time.Sleep(time.Second) // it is delivered to any thread, in its own time
	}
	return code
}
