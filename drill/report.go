package drill

import (
	"time"

	"flockd/backends"
)

// Fault is what is done to the leader.
type Fault string

const (
	Resign Fault = "resign" // it is asked to step down
	Kill   Fault = "kill"   // its flockd is killed, and not the guard
	Freeze Fault = "freeze" // its flockd is stopped, and goes on when the other leads
	Cut    Fault = "cut"    // the store doesn't answer it any more, until the other leads
)

// Failure is what didn't go as promised.
type Failure string

const (
	Overlap     Failure = "overlap"      // two commands ran at once
	TermsFell   Failure = "terms"        // a term isn't larger than the one before
	Admitted    Failure = "stale-write"  // a write was admitted after one of a larger term
	Untried     Failure = "untried"      // no write of an old term could be tried
	NoChange    Failure = "no-change"    // the other contender was never elected
	NotFollowed Failure = "not-followed" // the old leader didn't stand in line again
)

// Case is what a drill is about.
type Case struct {
	Fault  Fault
	TTL    time.Duration  // as granted
	Before backends.Token // the drill's own hold, which came before the first term
}

// Term is one command that ran. Instants are readings of the drill's clock.
type Term struct {
	Contender string
	Token     backends.Token
	From, To  time.Duration
	EndedBy   string // the fault; end: of the drill; other: by neither

	seen  time.Duration // it was alive for certain
	alone bool
	ended bool // by the kernel's word; else To is the last that was seen
	pid   int
	id    string
}

// Meeting is two commands that ran at once.
type Meeting struct {
	Tokens [2]backends.Token // the second is 0 where nothing is known of it
	From   time.Duration
	For    time.Duration // at least
}

// Report is how a drill went.
type Report struct {
	Case
	Terms    []Term         // in the order in which their commands began
	Struck   time.Duration  // when the fault came; 0: it didn't
	Old, New int            // the terms between which the leader changed, in Terms; -1: none
	Gap      time.Duration  // without a command, from the end of the old to the start of the new
	Change   time.Duration  // from the fault to the start of the new
	Meetings []Meeting      // empty: no two commands ran at once
	Tried    int            // writes with the token of a term that was over
	Stopped  int            // those of them that were refused
	Follows  *time.Duration // the old leader stood in line again so long after it could; nil: it didn't
	Failures []Failure      // empty: all went as promised
}
