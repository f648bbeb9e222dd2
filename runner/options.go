package runner

import (
	"log/slog"
	"os"
	"syscall"
	"time"

	"flockd/backends"
	"flockd/runner/guard"
	"flockd/runner/tree"
)

// Forever as Options.Wait stands in line until the context ends.
const Forever time.Duration = -1

// GiveBackName is argv[0] of a program that carries out an Options.Legacy.
const GiveBackName = guard.GiveBackName

// Nobody as Options.MaxWaiters stands in no line.
const Nobody = -1

// DefaultGrace as Options.Grace takes the default of the TTL that was granted.
const DefaultGrace time.Duration = -1

// OnLost says what happens to the command when its lease can't be proven any more.
type OnLost string

const (
	Kill OnLost = "kill" // TERM, then KILL, before the lease ends
	Warn OnLost = "warn" // Options.WarnSignal, and let it run on; there is no guard then
)

// Leftovers says what becomes of the processes that outlive a command which ended
// by itself. After a loss, after MaxRuntime and, unless OnLost is Warn, after our own
// death all are killed.
type Leftovers string

const (
	Name  Leftovers = ""      // leave them, and name them: Options.OnLeft
	Leave Leftovers = "leave" // without a word
	Await Leftovers = "wait"  // hold the key until they have ended
	Purge Leftovers = "kill"  // TERM, then KILL, before the key is given back
)

// Process is one that is left.
type Process = tree.Process

// OnUnavailable says what to do when the store is out of reach before the start.
type OnUnavailable string

const (
	Fail        OnUnavailable = "fail"
	Skip        OnUnavailable = "skip"
	RunUnlocked OnUnavailable = "run" // without the lock, and without a token
)

// Options describe one run of a command under a lock.
type Options struct {
	Backend backends.Backend
	Request backends.Request // but Place, which Run sets

	Wait     time.Duration // how long to stand in line; 0: not at all; Forever
	Spent    time.Duration // of Wait and Patience, before the call
	Patience time.Duration // how long the store may stay out of reach, if Wait isn't longer; 0: 5 s
	Chain    []string      // IDs of the enclosing holds, outermost first: Run never waits behind one of them

	MaxWaiters int  // with Wait: leave the line where so many wait in front; 0: no limit; Nobody: where a place is needed at all
	Supersede  bool // with Wait: ask the waiters in front to leave the line

	Command    Command
	Beside     *Beside       // nil: nothing
	Grace      time.Duration // between TERM and KILL; 0: none; DefaultGrace
	MaxRuntime time.Duration // TERM, then KILL (Grace or 10 s later), after this long; 0: no limit
	OnLost     OnLost
	WarnSignal syscall.Signal // for Warn
	Leftovers  Leftovers

	OnUnavailable OnUnavailable

	// Hurry is closed by whoever can't wait for a stop of the command, which has begun: it is
	// killed at once. May be nil.
	Hurry <-chan struct{}

	Signals <-chan os.Signal // passed to the command; before it runs HUP, INT, QUIT and TERM give up the place in line; what else comes in line is dropped
	Log     *slog.Logger

	OnWait   func(*backends.HeldError)  // called with each answer that keeps us in line, nil: a question in it had none; may be nil
	OnWaited func(Class)                // called once after OnWait, when that wait ends, "": the key was granted; may be nil
	OnSilent func(error)                // called before OnWait with why a question in line had no answer; may be nil
	OnGrant  func(backends.Lease) error // called before the command starts; its error gives the lease back; may be nil
	OnUnkept func(error)                // called before we stop with the command, where nobody will renew the lease meanwhile; may be nil
	OnStart  func(backends.Lease)       // called once the command runs, without a lease where it runs unlocked; may be nil
	OnRenew  func(left time.Duration)   // called with the grant, and after each renewal, with how long before anybody else can be granted the key; from a goroutine that must not be held up; may be nil
	OnStop   func(error, time.Duration) // called when the command is told to end, with why and how long before it is killed, and again when that changes; may be nil
	OnGone   func(Result)               // called when nothing is left that the key was held for, before it is given back; may be nil
	OnLeft   func([]Process)            // called with those who outlive the command, where Leftovers is Name; may be nil
	OnEnd    func(Result)               // called with what Run is about to return, while the guard still watches; may be nil

	// Clean takes out of a text what a command that asks whether its hold stands may not be
	// told: an error of the store's may repeat a secret. Nil: nothing.
	Clean func(string) string

	// Legacy is what is to be done if this process is killed: the guard starts this
	// program once more, under the name GiveBackName and with these bytes as its
	// stdin, when nothing of the command is left. It is asked once before the
	// command starts, with a zero lease where it runs unlocked. May be nil.
	Legacy func(backends.Lease) []byte
}

// Command is what to run. Its files are handed over as they are, without a
// copying goroutine in between.
type Command struct {
	Path    string        // absolute or with a slash: looked up already
	Args    []string      // with the name first
	Env     []string      // the environment to start from; Run adds its own variables, which win
	Backend func() string // FLOCKD_BACKEND for the command, asked for as it starts; nil: none
	Stdin   *os.File      // nil: closed, also below
	Stdout  *os.File
	Stderr  *os.File
	Inherit []int // further descriptors of ours that it has as well; until it starts, and after, they are closed on exec
}

// Class names how a run came out.
type Class string

const (
	Finished    Class = "finished"    // it ran under the lock from start to end
	Skipped     Class = "skipped"     // the key is taken: Result.Held, with a Notice if somebody asked us to leave the line; or Result.Err says why, as *backends.RemovedError by whom
	Done        Class = "done"        // this run has succeeded before: Result.Err is a *backends.DoneError
	Lost        Class = "lost"        // the lease was lost while it ran, or its success could not be recorded: Result.Err
	Unavailable Class = "unavailable" // the store could not be reached or refused: Result.Err; the command did not run
	MaxRuntime  Class = "max-runtime" // it was stopped after Options.MaxRuntime
	NotStarted  Class = "not-started" // the command could not be executed: Result.Err
	Nested      Class = "nested"      // it would wait behind a hold of its own chain: Result.Held
	BadGrace    Class = "bad-grace"   // Grace doesn't fit the TTL that was granted: Result.Err
	Interrupted Class = "interrupted" // Result.Signal came while it stood in line, or the context ended: Result.Err
	Internal    Class = "internal"    // a fault in flockd: Result.Err
)

// Result is how a run came out.
type Result struct {
	Class    Class
	Lease    backends.Lease      // zero: none was granted
	Exit     Exit                // zero: the command did not run
	Held     *backends.HeldError // who is in the way, with Skipped and Nested
	Signal   syscall.Signal      // the signal that ended the wait, or that came to us and that the command died of
	Unlocked bool                // it ran without the lock: RunUnlocked
	Err      error

	Unrecorded bool // with Lost: the command has succeeded, but its success as Lease.Run could not be recorded
}

// Exit is how the command ended. Times are wall clock, for display only.
type Exit struct {
	Code    int            // 0 to 255; 128+N where signal N ended it
	Signal  syscall.Signal // 0: it ended by itself
	Started time.Time
	Ended   time.Time
}
