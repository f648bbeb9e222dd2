package runner

import (
	"errors"
	"time"

	"flockd/backends"
	"flockd/runner/guard"
)

// ErrExpiring says that no renewal succeeded in time.
var ErrExpiring = errors.New("no renewal succeeded in time")

// ErrPaused says that this process went on too late, without a failure of the store's.
var ErrPaused = errors.New("flockd, or its host, was stopped until the lease had run out")

// lostGrace is the longest grace once the store said that the hold is gone:
// another may be running already.
const lostGrace = 2 * time.Second

// never is later than any reading of a clock.
const never = guard.Never

// term is how far this process may trust its own lease. It is a value: its
// methods read no clock, start no timer and ask no store. Instants are readings
// of one clock that nobody can set.
type term struct {
	timing Timing
	ttl    time.Duration // as granted last
	sent   time.Duration // when the last request that succeeded was sent
	next   time.Duration // when to renew, or while asking, when to give that attempt up
	asking bool          // a renewal is in flight
	began  time.Duration // when the last renewal was sent, whatever has become of it
	gone   error         // the store's word that it is, which is final; nil: none
	due    *stop         // to be told
	told   bool          // a stop has been told: no other for want of a renewal
	wish   *stop         // to be told, unless another comes first: somebody wants it
	wished bool          // such a wish came: the same one comes with each renewal
}

// stop says that the command has to go: TERM now, KILL at kill.
type stop struct {
	kill time.Duration
	why  error
}

type action int

const (
	rest   action = iota // until step.at
	renew                // ask the store
	giveUp               // let go of the renewal in flight: it failed
	tell                 // pass step.stop on
)

type step struct {
	do   action
	at   time.Duration
	stop stop
}

// decide says what to do at now. The end of the lease comes before anything
// else: after a pause the command is stopped before any renewal.
func (t term) decide(now time.Duration) step {
	switch {
	case t.due != nil:
		return step{do: tell, stop: *t.due}
	case !t.told && now >= t.sent+t.timing.Term:
		return step{do: tell, stop: stop{t.sent + t.timing.Kill, ErrExpiring}}
	case t.wish != nil:
		return step{do: tell, stop: *t.wish}
	case t.gone != nil:
		return step{do: rest, at: never}
	case now >= t.next && t.asking:
		return step{do: giveUp}
	case now >= t.next:
		return step{do: renew}
	case t.told:
		return step{do: rest, at: t.next}
	}
	return step{do: rest, at: min(t.next, t.sent+t.timing.Term)}
}

// asked moves the term on when a renewal is sent.
func (t term) asked(now time.Duration) term {
	t.asking, t.began, t.next = true, now, now+t.timing.Attempt
	return t
}

// renewed moves the term on after the request that was sent at sent succeeded.
// jitter from 0 to 1 makes the next renewal up to a tenth earlier, so that holds
// which began together don't ask together for ever.
func (t term) renewed(sent time.Duration, jitter float64) term {
	t.asking, t.sent = false, sent
	t.next = sent + t.timing.Renew - time.Duration(jitter*float64(t.timing.Renew)/10)
	return t
}

// relieved moves the term on after another has renewed the lease, at sent for the last time;
// zero: never. What that one was woken for, the store tells us as well.
func (t term) relieved(sent, now time.Duration) term {
	t.asking, t.sent, t.next = false, max(t.sent, sent), now
	return t
}

// hinted moves the next renewal forward to now. A renewal that is in flight is left alone.
func (t term) hinted(now time.Duration) term {
	if !t.asking {
		t.next = min(t.next, now)
	}
	return t
}

// wanted moves the next renewal forward for somebody who waits for what it shows: to now, or to
// pause after the last one was sent. A renewal that is in flight is left alone.
func (t term) wanted(now, pause time.Duration) term {
	if !t.asking {
		t.next = min(t.next, max(now, t.began+pause))
	}
	return t
}

// failed moves the term on after a renewal failed. Only ErrLost is final; any
// other error leaves the outcome unknown and the old deadline standing.
func (t term) failed(err error, now time.Duration) term {
	t.asking, t.next = false, now+t.timing.Retry
	if errors.Is(err, backends.ErrLost) {
		t.gone = err
		t.due = &stop{min(now+min(t.timing.Grace, lostGrace), t.sent+t.timing.Kill), err}
	}
	return t
}

// noticed moves the term on after the store passed on a wish that the holder stop. The lease
// is renewed meanwhile, so the grace is the command's own, however short the TTL; where the
// lease can't be renewed, that stop is told as well.
func (t term) noticed(why error, now, grace time.Duration) term {
	if !t.told && !t.wished {
		t.wish, t.wished = &stop{now + grace, why}, true
	}
	return t
}

// passedOn moves the term on after a stop that decide has named at now was told. The next
// renewal leaves time to act on it.
func (t term) passedOn(now time.Duration) term {
	wish := t.due == nil && t.wish != nil && now < t.sent+t.timing.Term
	t.told = t.told || !wish
	t.due, t.wish = nil, nil
	if !t.asking {
		t.next = max(t.next, now+t.timing.Retry)
	}
	return t
}

// late moves the term on before the success of a renewal is heard at now. If a stop was
// due by then, it stays due: after a pause the guard has acted on it, or is about to.
func (t term) late(now time.Duration) term {
	if s := t.decide(now); s.do == tell {
		t.due = &s.stop
	}
	return t
}

// standing is nil while the lease can be trusted at now.
func (t term) standing(now time.Duration) error {
	switch {
	case t.gone != nil:
		return t.gone
	case now >= t.sent+t.timing.Term:
		return ErrExpiring
	}
	return nil
}
