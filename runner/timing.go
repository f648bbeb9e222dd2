package runner

import (
	"fmt"
	"sort"
	"time"

	"flockd/backends"
)

const (
	renewAtMost  = 30 * time.Second       // bounds how long a break or a lost write stays unnoticed
	attemptFloor = 100 * time.Millisecond // a round trip to a store on another continent
	retryFloor   = 50 * time.Millisecond  // a store that refuses connections isn't asked more than 20 times a second
	reapFloor    = 250 * time.Millisecond // covers the death of about 750 processes on two cores
	graceAtMost  = 10 * time.Second       // what service managers give at least
)

// Timing is the time line of a hold. All but Trusted are counted from the
// reading of the local clock just before the last request that succeeded.
type Timing struct {
	Trusted time.Duration // how long a grant may be relied on: the TTL less the store's slack

	Renew   time.Duration // when to renew; jitter makes it earlier, never later
	Attempt time.Duration // how long one renewal may last
	Retry   time.Duration // from the end of a failed renewal to the next
	Grace   time.Duration // between Term and Kill
	Reap    time.Duration // between Kill and ValidUntil: the time to kill a tree

	Term       time.Duration // the lease can't be proven any more
	Kill       time.Duration // the command must be killed
	ValidUntil time.Duration // before this nobody else can have been granted the key
}

// NewTiming is the time line of a grant that may be relied on for trusted. A
// grace that leaves no room for two full renewals is a *GraceError;
// DefaultGrace takes the largest that is sensible.
func NewTiming(trusted, grace time.Duration) (Timing, error) {
	return TimingOf(backends.Traits{}, trusted, grace)
}

// TimingOf is NewTiming for a grant of ttl by a store with these traits; its
// error speaks of TTLs as the user gives them.
func TimingOf(traits backends.Traits, ttl, grace time.Duration) (Timing, error) {
	trusted := traits.Trusted(ttl)
	room := graceRoom(trusted)
	if room < max(grace, 0) {
		return Timing{}, &GraceError{
			Grace:   grace,
			TTL:     ttl,
			Largest: room.Truncate(time.Millisecond),
			Fits:    ttlFor(traits, max(grace, 0)),
		}
	}
	if grace < 0 {
		grace = min(graceAtMost, trusted/4, room)
	}
	return timeLine(trusted, grace), nil
}

// timeLine applies no rule: a grace without room puts Term before its time.
func timeLine(trusted, grace time.Duration) Timing {
	t := Timing{
		Trusted:    trusted,
		Renew:      min(trusted/3, renewAtMost),
		Attempt:    max(trusted/8, attemptFloor),
		Retry:      max(trusted/40, retryFloor),
		Grace:      grace,
		Reap:       max(reapFloor, trusted/100),
		ValidUntil: trusted / 100 * 99, // the clocks' rates agree to 1 %
	}
	t.Kill = t.ValidUntil - t.Reap
	t.Term = t.Kill - t.Grace
	return t
}

// graceRoom is the largest grace with which a first renewal at a third of the
// lease and two full attempts fit before Term. It grows with trusted, and is
// negative where nothing fits.
func graceRoom(trusted time.Duration) time.Duration {
	t := timeLine(trusted, 0)
	return t.Term - trusted/3 - 2*t.Attempt - t.Retry
}

// ttlFor is the shortest TTL that bears grace, rounded up for people.
func ttlFor(traits backends.Traits, grace time.Duration) time.Duration {
	// The rule takes less than two thirds of a lease and constants of half a
	// second, so that three times the grace and some seconds are enough; a
	// slack is a fraction of the TTL or seconds.
	most := 8*grace + time.Minute
	ms := sort.Search(int(most/time.Millisecond), func(n int) bool {
		return graceRoom(traits.Trusted(time.Duration(n)*time.Millisecond)) >= grace
	})
	return roundUp(time.Duration(ms) * time.Millisecond)
}

// roundUp gives two or three significant figures.
func roundUp(d time.Duration) time.Duration {
	unit := time.Minute
	switch {
	case d <= 10*time.Second:
		unit = 100 * time.Millisecond
	case d <= 10*time.Minute:
		unit = time.Second
	}
	return (d + unit - 1).Truncate(unit)
}

// GraceError says that a TTL has no room for a grace.
type GraceError struct {
	Grace   time.Duration // as asked; negative: the TTL is too short for any
	TTL     time.Duration
	Largest time.Duration // the largest grace that fits TTL; negative: none
	Fits    time.Duration // a TTL, rounded up, that bears Grace
}

func (e *GraceError) Error() string {
	if e.Grace < 0 || e.Largest < 0 {
		return fmt.Sprintf("a TTL of %v is too short, the shortest is %v", e.TTL, e.Fits)
	}
	return fmt.Sprintf("a grace of %v doesn't fit a TTL of %v, which bears %v at most; a TTL of %v bears it",
		e.Grace, e.TTL, e.Largest, e.Fits)
}
