package cmd

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that go to the command.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// catchSignals takes the signals that are for the command, but those that were
// ignored when we started: they stay ignored, for the command as well. It is done
// when caught is closed; the runtime takes some 0.5 ms, which the store's opening
// needs too.
func (r *lockedRun) catchSignals() (signals chan os.Signal, caught <-chan struct{}) {
	signals = make(chan os.Signal, 32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, sig := range passedOn {
			if r.Process && !signal.Ignored(sig) {
				signal.Notify(signals, sig)
			}
		}
	}()
	return signals, done
}

// outlivePipes keeps a reader of stderr that went away from ending us, and leaving
// the command alone. Ignoring SIGPIPE would be inherited by the command; catching
// it isn't.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
