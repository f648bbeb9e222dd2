package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"
)

const (
	// defaultKillAfter is the grace where no lease sets one: see ownGrace.
	defaultKillAfter = 10 * time.Second
	// A look for what is left of a tree costs some ms on a busy host, so they
	// soon become rarer.
	lookMin = 5 * time.Millisecond
	lookMax = 100 * time.Millisecond
	// settle is how long those who outlive the command may take to end before they are
	// worth a warning: the rest of a pipeline does.
	settle = 100 * time.Millisecond
	// tough is how long after KILL somebody may live before that is worth a warning:
	// to free the memory of a process takes 0.1 s a GiB.
	tough = 2 * time.Second
)

// process is a command that runs.
type process interface {
	containment() string       // what a kill reaches, for people
	changed() <-chan os.Signal // CHLD: something happened to a child of ours; TSTP: to be passed
	number() int               // of its first process; 0: it has ended
	halted() bool              // its first process is stopped, or has ended
	stopped() syscall.Signal   // what has stopped it since the last call, if a shell waits for that; 0: nothing
	ended() bool               // its first process has ended; true until reap
	typed(syscall.Signal) bool // the terminal has sent it to all of us
	pass(syscall.Signal)       // what somebody sent to flockd
	signal(syscall.Signal)     // to the whole tree
	live() bool                // some of the tree, the first process included, isn't dead
	outlived() bool            // once ended: others of the tree aren't dead, as far as a short look tells
	members() []Process        // those of the tree that aren't dead
	reap() Exit                // once ended; nothing may be called afterwards
}

// supervision watches over a command until it has ended, or where it was told
// to stop, until its whole tree has.
type supervision struct {
	process    process
	beside     *companion // nil: none
	clock      func() time.Duration
	tick       time.Duration // the longest sleep
	signals    <-chan os.Signal
	hurry      <-chan struct{} // see Options; nil: none
	stops      <-chan stop     // of its lease; nil: it has none
	warn       syscall.Signal  // what a stop of its lease sends; 0: TERM, then KILL
	maxRuntime time.Duration   // 0: no limit
	killAfter  time.Duration   // the grace after maxRuntime, and for left-overs
	// suspend stops us as well: see run.suspend.
	suspend   func(syscall.Signal) (did, woken bool)
	onStop    func(error)                         // told why the command is made to stop, where that isn't for its lease; may be nil
	onTold    func(why error, left time.Duration) // see Options.OnStop; may be nil
	leftovers Leftovers
	onLeft    func([]Process) // see Options; may be nil
	log       *slog.Logger

	received []syscall.Signal // those that came to flockd
	wakeUps  int              // CONTs to come that have ended stops of ours
	woken    bool             // the last of them is our stand-in's: nobody wants the command to go on
	stopping bool
	killAt   time.Duration // once stopping
	killed   bool
	killedAt time.Duration
	look     time.Duration // until the next look at what is left
	ended    time.Duration // when the first process was seen to have ended; 0: not yet
	told     bool          // who is left has been named
	lost     error         // why the lease made it stop
	tooLong  bool          // maxRuntime made it stop
	canceled error         // the context made it stop
}

// watch returns when nothing is left that has to be waited for. The command has
// been reaped then.
func (s *supervision) watch(ctx context.Context) Exit {
	limit := s.limit()
	done := ctx.Done()
	s.stopToo() // what was heard before is heard no more
	for s.look = lookMin; !s.over(); {
		timer := time.NewTimer(s.nap())
		select {
		case sig := <-s.process.changed():
			s.mindStop(sig)
		case sig, ok := <-s.signals:
			s.came(sig, ok)
		case st := <-s.stops:
			s.leaseStops(st)
		case <-limit:
			if s.ended != 0 && s.stopping {
				continue // the command wasn't too long, and those that it left are stopped already
			}
			s.tooLong = true
			s.stopFor(fmt.Errorf("it has run for longer than %v", s.maxRuntime))
			s.log.Warn("the command runs for too long: stopping it", "limit", s.maxRuntime)
		case <-done:
			done = nil
			s.canceled = context.Cause(ctx)
			s.stopFor(s.canceled)
		case <-s.beside.ended():
			s.beside.heard()
		case <-s.hurryUp():
			s.hurry = nil
			s.stop(s.clock())
		case <-timer.C:
		}
		timer.Stop()
		s.killIfDue()
	}
	e := s.process.reap()
	s.hear(e.Signal)
	return e
}

// hurryUp is closed where a stop that has begun is to be over at once.
func (s *supervision) hurryUp() <-chan struct{} {
	if !s.stopping {
		return nil
	}
	return s.hurry
}

func (s *supervision) limit() <-chan time.Time {
	if s.maxRuntime == 0 {
		return nil
	}
	return time.After(s.maxRuntime)
}

// over reports whether there is nothing to wait for.
func (s *supervision) over() bool {
	if !s.process.ended() {
		return false
	}
	if s.beside.end(); s.beside.lives() {
		return false
	}
	if !s.stopping {
		return s.left()
	}
	return !s.process.live()
}

// left follows what is to become of those who outlive a command that ended by itself,
// and reports whether there is nothing to wait for.
func (s *supervision) left() bool {
	if s.leftovers == Leave || !s.process.outlived() {
		return true
	}
	now := s.clock()
	if s.ended == 0 {
		s.ended = now
	}
	switch {
	case s.leftovers == Purge:
		s.stopFor(errLeft)
		return false
	case now < s.ended+settle:
		return false
	case s.leftovers == Await:
		if !s.told {
			s.told = true
			s.log.Info("the command has ended: waiting for the processes that it left", "left", s.process.members())
		}
		return false
	}
	if left := s.process.members(); len(left) > 0 && s.onLeft != nil {
		s.onLeft(left)
	}
	return true
}

// nap is how long nothing is due.
func (s *supervision) nap() time.Duration {
	nap := never
	if s.stopping && !s.killed {
		nap = min(s.tick, s.killAt-s.clock())
	}
	if s.killed || s.stopping && s.process.ended() || s.ended != 0 { // no event tells of the rest of the tree
		s.look = min(2*s.look, lookMax)
		nap = min(nap, s.look)
	}
	if s.ended != 0 && s.leftovers == Name && !s.stopping {
		nap = min(nap, s.ended+settle-s.clock())
	}
	return nap
}

// leaseStops follows the keeper.
func (s *supervision) leaseStops(st stop) {
	first := s.lost == nil
	s.lost = st.why
	reason := "the lease can't be kept: "
	if WasAsked(st.why) {
		reason = ""
	}
	switch {
	case s.warn == 0:
		s.stop(st.kill)
		s.tell(st.why)
		s.log.Warn(reason+"stopping the command", "err", st.why, "kill_in", max(st.kill-s.clock(), 0))
	case first: // one warning a hold
		s.process.pass(s.warn)
		s.log.Warn(reason+"warning the command", "err", st.why)
	}
}

// errLeft is why those who outlive a command are stopped.
var errLeft = errors.New("it has ended, and what it left is not to outlive it")

// errDismissed is why those who outlive a command, and were waited for, are stopped.
var errDismissed = errors.New("it has ended, and what it left is not waited for any longer")

// ownGrace is the time between TERM and KILL where the lease is renewed meanwhile; asked may be
// DefaultGrace.
func ownGrace(asked time.Duration) time.Duration {
	if asked < 0 {
		return defaultKillAfter
	}
	return asked
}

// stopFor is stop for a reason that isn't the lease's.
func (s *supervision) stopFor(why error) {
	if s.onStop != nil {
		s.onStop(why)
	}
	s.stop(s.clock() + s.killAfter)
	s.tell(why)
}

// tell says why the command is being stopped, and how long it has.
func (s *supervision) tell(why error) {
	if s.onTold != nil {
		s.onTold(why, max(s.killAt-s.clock(), 0))
	}
}

// stop tells the tree to end by killAt. A second one can only bring that forward.
func (s *supervision) stop(killAt time.Duration) {
	if s.stopping {
		s.killAt = min(s.killAt, killAt)
		return
	}
	s.stopping, s.killAt = true, killAt
	s.beside.end() // at once: a stop doesn't wait for it
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
	switch {
	case !s.killed:
		s.killed, s.look, s.killedAt, s.told = true, lookMin, s.clock(), false
		s.log.Info("killing the command")
	case !s.told && s.clock() > s.killedAt+tough:
		s.told = true
		s.log.Warn("the command can't be killed, or not yet: waiting for its end", "left", s.process.members())
	}
}
