//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package runner

import (
	"os"
	"os/signal"
	"syscall"

	"flockd/runner/tty"
)

// Here a stop isn't seen before the command's end: Ctrl-Z stops us with the command, and
// the guard kills it before the lease ends. No stand-in is ever started.

func catchStops(*tty.Terminal, chan<- os.Signal) {}

// ignoreOutput keeps the terminal from stopping us when we give it back from the background.
func ignoreOutput() { signal.Ignore(syscall.SIGTTOU) }

// letStops leaves TTOU ignored: there is no way back.
func letStops(caught chan<- os.Signal) { signal.Stop(caught) }

func (ch *child) stopped() syscall.Signal { return 0 }

func (r *run) suspend(*keeper, process, syscall.Signal) (did, woken bool) { return false, false }
