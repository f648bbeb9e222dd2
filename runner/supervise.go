package runner

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// defaultKillAfter is the grace of MaxRuntime, where no lease sets one.
	defaultKillAfter = 10 * time.Second
	// A look for what is left of a tree costs some ms on a busy host, so they
	// soon become rarer.
	lookMin = 5 * time.Millisecond
	lookMax = 100 * time.Millisecond
)

// process is a command that runs.
type process interface {
	containment() string       // what a kill reaches, for people
	changed() <-chan os.Signal // something happened to a child of ours
	ended() bool               // its first process has ended; true until reap
	pass(syscall.Signal)       // what somebody sent to flockd
	signal(syscall.Signal)     // to the whole tree
	live() bool                // some of the tree, the first process included, isn't dead
	reap() Exit                // once ended; nothing may be called afterwards
}

// supervision watches over a command until it has ended, or where it was told
// to stop, until its whole tree has.
type supervision struct {
	process    process
	clock      func() time.Duration
	tick       time.Duration // the longest sleep
	signals    <-chan os.Signal
	stops      <-chan stop    // of its lease; nil: it has none
	warn       syscall.Signal // what a stop of its lease sends; 0: TERM, then KILL
	maxRuntime time.Duration  // 0: no limit
	killAfter  time.Duration  // the grace after maxRuntime
	log        *slog.Logger

	received []syscall.Signal // those that came to flockd
	stopping bool
	killAt   time.Duration // once stopping
	killed   bool
	look     time.Duration // until the next look at what is left
	lost     error         // why the lease made it stop
	tooLong  bool          // maxRuntime made it stop
	canceled error         // the context made it stop
}

// watch returns when nothing is left that has to be waited for. The command has
// been reaped then.
func (s *supervision) watch(ctx context.Context) Exit {
	limit := s.limit()
	done := ctx.Done()
	for s.look = lookMin; !s.over(); {
		timer := time.NewTimer(s.nap())
		select {
		case <-s.process.changed():
		case sig, ok := <-s.signals:
			s.passOn(sig, ok)
		case st := <-s.stops:
			s.leaseStops(st)
		case <-limit:
			s.tooLong = true
			s.stop(s.clock() + s.killAfter)
			s.log.Warn("the command runs for too long: stopping it", "limit", s.maxRuntime)
		case <-done:
			done = nil
			s.canceled = context.Cause(ctx)
			s.stop(s.clock() + s.killAfter)
		case <-timer.C:
		}
		timer.Stop()
		s.killIfDue()
	}
	return s.process.reap()
}

func (s *supervision) limit() <-chan time.Time {
	if s.maxRuntime == 0 {
		return nil
	}
	return time.After(s.maxRuntime)
}

// over reports whether there is nothing to wait for. A command that ended by
// itself leaves the rest of its tree alone.
func (s *supervision) over() bool {
	return s.process.ended() && (!s.stopping || !s.process.live())
}

// nap is how long nothing is due.
func (s *supervision) nap() time.Duration {
	nap := never
	if s.stopping && !s.killed {
		nap = min(s.tick, s.killAt-s.clock())
	}
	if s.killed || s.stopping && s.process.ended() { // no event tells of the rest of the tree
		s.look = min(2*s.look, lookMax)
		nap = min(nap, s.look)
	}
	return nap
}

func (s *supervision) passOn(sig os.Signal, ok bool) {
	if !ok {
		s.signals = nil
		return
	}
	if n, ok := sig.(syscall.Signal); ok {
		s.received = append(s.received, n)
		s.process.pass(n)
	}
}

// leaseStops follows the keeper.
func (s *supervision) leaseStops(st stop) {
	first := s.lost == nil
	s.lost = st.why
	switch {
	case s.warn == 0:
		s.stop(st.kill)
		s.log.Warn("the lease can't be kept: stopping the command", "err", st.why, "kill_in", max(st.kill-s.clock(), 0))
	case first: // one warning a hold
		s.process.pass(s.warn)
		s.log.Warn("the lease can't be kept: warning the command", "err", st.why)
	}
}

// stop tells the tree to end by killAt. A second one can only bring that forward.
func (s *supervision) stop(killAt time.Duration) {
	if s.stopping {
		s.killAt = min(s.killAt, killAt)
		return
	}
	s.stopping, s.killAt = true, killAt
	if s.clock() < killAt {
		s.process.signal(syscall.SIGTERM)
		s.process.signal(syscall.SIGCONT) // what is stopped can't act on TERM
	}
}

// killIfDue kills the tree, again with each look until nothing is left: what it
// was just forking may have escaped the first time.
func (s *supervision) killIfDue() {
	if !s.stopping || s.clock() < s.killAt {
		return
	}
	s.process.signal(syscall.SIGKILL)
	if !s.killed {
		s.killed, s.look = true, lookMin
		s.log.Info("killing the command")
	}
}

// diedOf is the signal that came to flockd and that the command died of, or 0.
func (s *supervision) diedOf(e Exit) syscall.Signal {
	if slices.Contains(s.received, e.Signal) {
		return e.Signal
	}
	return 0
}
