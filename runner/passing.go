package runner

import (
	"os"
	"slices"
	"syscall"
	"time"

	"flockd/runner/signals"
)

// hearing is how much later than the end of the command the signal may be heard that both
// of us were sent.
const hearing = 50 * time.Millisecond

// came takes a signal that came to us.
func (s *supervision) came(sig os.Signal, ok bool) {
	if !ok {
		s.signals = nil
		return
	}
	n, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	s.received = append(s.received, n)
	switch {
	case s.ended == 0 && s.process.typed(n):
	case s.ended != 0 && s.leftovers != Await: // they are let go, or stopped already
	case s.ended != 0 && signals.EndsWait(n): // whoever waits for left-overs doesn't want to any more
		s.stopFor(errDismissed)
	case n == syscall.SIGCONT:
		s.goOn()
	default:
		s.process.pass(n)
	}
}

// passEarly takes a signal that came before the command.
func (s *supervision) passEarly(sig os.Signal) {
	if n, ok := sig.(syscall.Signal); ok {
		s.received = append(s.received, n)
		s.process.pass(n)
	}
}

// pending are the signals that have come already.
func pending(came <-chan os.Signal) (sigs []os.Signal) {
	for {
		select {
		case sig, ok := <-came:
			if !ok {
				return sigs
			}
			sigs = append(sigs, sig)
		default:
			return sigs
		}
	}
}

// mindStop stops us where the command was stopped, as a shell expects of its job. TSTP
// stops us with left-overs that are waited for, since nobody says that these were.
func (s *supervision) mindStop(sig os.Signal) {
	s.stopToo()
	if sig != syscall.SIGTSTP || s.wakeUps != 0 || s.stopping {
		return
	}
	typed := s.process.typed(syscall.SIGTSTP)
	switch {
	case s.ended != 0:
		if !typed {
			s.process.pass(syscall.SIGTSTP)
		}
		s.stopBy(syscall.SIGTSTP)
	case !typed && !s.process.halted(): // or the terminal had sent it, and a shell has taken it back since
		s.process.pass(syscall.SIGTSTP)
	}
}

// stopToo stops us if the command was stopped since the last call, and reports whether it
// was.
func (s *supervision) stopToo() (was bool) {
	for by := s.process.stopped(); by != 0 && !s.stopping; by = s.process.stopped() {
		s.stopBy(by)
		was = true
	}
	return was
}

// stopBy stops us by a signal, until somebody makes us go on.
func (s *supervision) stopBy(sig syscall.Signal) {
	did, woken := s.suspend(sig)
	if did {
		s.woken = woken
		s.wakeUps++
	}
	s.forgetStops()
}

// forgetStops drops the terminal's own TSTP, which may be heard after the stop that it
// has caused, when the terminal isn't ours any more.
func (s *supervision) forgetStops() {
	for {
		select {
		case <-s.process.changed(): // what else has happened is looked at anyway
		default:
			return
		}
	}
}

// goOn passes a CONT on. The one that has ended our own stop was sent to the command's
// group, and by our stand-in not for the command at all. By the time that it is heard
// the command may have been stopped again.
func (s *supervision) goOn() {
	before := s.process.halted() // first: a stop since then is a new one
	again := s.wakeUps > 0 && s.stopToo()
	if !again && (s.wakeUps == 0 || before && !s.woken) {
		s.process.pass(syscall.SIGCONT)
	}
	s.wakeUps = max(s.wakeUps-1, 0)
}

// hear waits a moment for the signal that the command died of, if we are to die of it too.
// A key sends it to both of us, and the command's end may be heard first.
func (s *supervision) hear(sig syscall.Signal) {
	if !signals.EndsWait(sig) || s.stopping {
		return
	}
	late := time.After(hearing)
	for !slices.Contains(s.received, sig) {
		select {
		case came, ok := <-s.signals:
			if !ok {
				return
			}
			n, _ := came.(syscall.Signal)
			s.received = append(s.received, n)
		case <-late:
			return
		}
	}
}

// diedOf is the signal that came to flockd and that the command died of, or 0.
func (s *supervision) diedOf(e Exit) syscall.Signal {
	if slices.Contains(s.received, e.Signal) {
		return e.Signal
	}
	return 0
}
