// Package election keeps one of several instances of a command running: it campaigns for a
// key, runs the command for as long as it leads, and campaigns again. A term is one hold of the
// key, its number is the hold's token, and one command runs in it. It knows no driver.
package election

import (
	"context"
	"os"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// Restart says whether to campaign again after a command that has ended by itself. After a
// term that ended otherwise it is always done.
type Restart string

const (
	Always    Restart = "always"
	OnFailure Restart = "on-failure" // unless it exited with 0
	Never     Restart = "never"
)

// Options describe a candidate.
type Options struct {
	// Term is what each term is run with. Campaign sets Request.ID, Wait, Leftovers, Signals, Hurry
	// and Beside, and calls its functions beside what it does itself.
	Term    runner.Options
	Restart Restart // empty: Always

	OnElected *Hook // started with the command; it ends with it at the latest; nil: none
	OnDeposed *Hook // started when nothing of the command is left; nil: none

	Signals  <-chan os.Signal // of the process: see Campaign
	Terminal bool             // the process has a controlling terminal

	// Changed is called with each change, from one goroutine, and must not take long: until it
	// returns no signal is heard. May be nil.
	Changed func(State)

	// Gone is called as Changed is, with how a term came out in which a command ran, when nothing of
	// that is left: before OnDeposed is started and the key given back. May be nil.
	Gone func(runner.Result)

	// Asks are questions of a watchdog, each with a channel for the answer, which holds one: nil,
	// or what is wrong. There is no answer where the campaign doesn't move any more. May be nil.
	Asks <-chan chan<- error
}

// Hook is a command that is told of a change. It never holds up a stop of the command, nor
// the next election.
type Hook struct {
	Command runner.Command
	Limit   time.Duration // it is killed after so long
}

// Phase is what a candidate does.
type Phase string

const (
	Campaigning Phase = "campaigning" // it asks for the key, or stands in line
	Leading     Phase = "leading"     // its command runs
	Stopping    Phase = "stopping"    // its command has been told to end
	Resting     Phase = "resting"     // it isn't in line: State.Pause
)

// State is what a candidate has come to.
type State struct {
	Phase Phase
	Held  *backends.HeldError // Campaigning: who leads, and who is in front; nil: the store gave no answer yet
	Lease backends.Lease      // Leading, Stopping: the term
	Last  *runner.Result      // of the last term; nil: there was none
	Pause time.Duration       // Resting: until it campaigns again
	Err   error               // Campaigning: why the store gives no answer; Stopping: why it stops
}

// Result is how a candidate ended.
type Result struct {
	// Of its last term, or of what kept it from campaigning. Its Class is Interrupted where it was
	// told to end, unless the lease was lost meanwhile.
	runner.Result
	Resigned bool // it was told to by a signal, Result.Signal, and nobody of its command is left
}

// Campaign campaigns until it is told to end, or its command has ended by itself and Restart says
// so, or the store refuses it before it ever was in line. When it returns, nothing is left of
// its commands, its hooks have ended, and the key is given back.
//
// The end of ctx has it resign, and so do TERM and INT, with a terminal HUP and QUIT as well:
// the command is told to end, and the key given back when nothing of it is left. A second one
// kills the command at once. Every other signal is passed to the command, or dropped while none
// runs.
func Campaign(ctx context.Context, o Options) Result { return newCandidate(o).campaign(ctx) }
