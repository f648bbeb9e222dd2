// Package signals catches what is sent to a run as soon as Go lets it, and ends
// this process by a signal. It imports little, so that it is initialised before
// all that takes its time.
package signals

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// passed are the signals that are for the command. First come those that the runtime
// swallows until they are caught, then the one for which it prints its goroutines.
var passed = []os.Signal{
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGINT, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGCONT,
}

var (
	caught = make(chan os.Signal, 32)
	begin  sync.Once
	take   = make(chan struct{}) // closed: somebody else reads caught from now on
	taken  = make(chan struct{}) // closed: all signals are caught, and nobody here reads them
)

// To catch them takes the runtime some 0.3 ms, much of it on another thread: the rest of
// the program is initialised meanwhile.
func init() {
	if isRun(os.Args) {
		begin.Do(func() { go keep() })
		runtime.Gosched() // now, and not when the rest is done
	}
}

// isRun reports whether these are the arguments of a run, or a candidate, with a command. A guard,
// whose only argument is a key, is none.
func isRun(args []string) bool { return len(args) > 2 && (args[1] == "run" || args[1] == "elect") }

// keep catches the signals, but those that were ignored when we started: they stay
// ignored, for the command as well. Until they are taken there is nothing to lose:
// one that ends a process ends this one.
func keep() {
	defer close(taken)
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
	var kept []os.Signal
	for {
		select {
		case sig := <-caught:
			if EndsWait(sig) {
				os.Exit(DieOf(sig.(syscall.Signal)))
			}
			kept = append(kept, sig)
		case <-take:
			Return(caught, kept)
			return
		}
	}
}

// Take hands the signals over: those that came since the start, and all that are yet to
// come. From then on none ends this process. It is called once at most.
func Take() chan os.Signal {
	begin.Do(func() { go keep() })
	close(take)
	<-taken
	return caught
}

// Return puts signals back, for whoever reads next; where others fill the queue they
// are dropped.
func Return(queue chan<- os.Signal, sigs []os.Signal) {
	for _, sig := range sigs {
		select {
		case queue <- sig:
		default:
		}
	}
}

// EndsWait reports whether a signal asks a process that waits to end, rather than telling it
// something.
func EndsWait(sig os.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		return true
	}
	return false
}

// OutlivePipes keeps a reader of stderr that went away from ending us, and leaving
// the command alone. Ignoring SIGPIPE would be inherited by the command; catching
// it isn't.
func OutlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
