package election

import (
	"errors"
	"time"

	"flockd/runner"
)

const (
	// pauseMin is long enough for others to take the key, where the command fails on this host
	// alone, and for what the command has left behind, as a port, to be free again.
	pauseMin = time.Second
	// pauseMax bounds what a command that can't run costs: one term a minute, with its lines in
	// the log, and a gap without a leader of its start and end.
	pauseMax = time.Minute
	// A command that ran for so long was well. It is no less than pauseMax: one that
	// soon fails must not be taken for well because it took its time.
	healthy = time.Minute
)

// policy says what a candidate does after a term. It is a value, and reads no clock.
type policy struct {
	restart Restart
	ttl     time.Duration // a term that took so long from its campaign on is no part of a fast loop
	pause   time.Duration // the last one after a command's own end; zero: none since a command was well
	again   time.Duration // the pause after the next loss, if that is soon; zero: none
}

// next is what a candidate does after a term.
type next struct {
	again bool          // it campaigns again
	pause time.Duration // before that; zero: at once, at the end of the line
}

// outcome is how a term came out.
type outcome struct {
	runner.Result
	took  time.Duration // from its campaign on
	ran   time.Duration // its command
	known bool          // the candidate has been in line, then or before
}

// after returns what to do after a term with such an outcome, and the policy for the next one.
func (p policy) after(o outcome) (policy, next) {
	if o.ran >= healthy {
		p.pause = 0
	}
	var lost *runner.LostError
	switch o.Class {
	case runner.Finished, runner.MaxRuntime, runner.NotStarted: // the command ended by itself
		if !p.restarts(o.Result) {
			return p, next{}
		}
	case runner.Lost, runner.Skipped:
		return p.afterLoss(o)
	case runner.Unavailable:
		if errors.As(o.Err, &lost) { // before the command was there
			return p.afterLoss(o)
		}
		if !o.known { // refused: what was set up is wrong
			return p, next{}
		}
	default:
		return p, next{}
	}
	p.pause = min(max(2*p.pause, pauseMin), pauseMax)
	return p, next{again: true, pause: p.pause}
}

// afterLoss has a lost term or place followed at once, unless they are lost so fast that it would
// be a loop: a store that grants and loses at once. Whoever was asked to go had a good store.
func (p policy) afterLoss(o outcome) (policy, next) {
	if o.took >= p.ttl || runner.WasAsked(o.Err) {
		p.again = 0
	}
	n := next{again: true, pause: p.again}
	p.again = min(max(2*p.again, pauseMin), pauseMax)
	return p, n
}

// restarts reports whether to campaign again after a command that ended by itself.
func (p policy) restarts(res runner.Result) bool {
	switch p.restart {
	case Never:
		return false
	case OnFailure:
		return res.Class != runner.Finished || res.Exit.Code != 0
	}
	return true
}
