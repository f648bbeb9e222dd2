package backends

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// RecordVersion is the version of the records that this program writes.
// A driver refuses a newer one with [ErrRefused].
const RecordVersion = 1

// Backend grants leases on keys. Its methods are safe for concurrent use, end
// when ctx does, and never wait for a key to become free.
type Backend interface {
	// Traits says what this store can promise. It asks nobody.
	Traits() Traits

	// Acquire asks once. An ID that holds is extended and gets the same token
	// again. Where somebody is in the way it returns a *HeldError, and a place
	// in line if Request.Place says so. An ID of which a claim yet cools is not granted:
	// ErrHeld, ErrLost or ErrDone. Errors: ErrHeld, ErrLost (the ID was
	// released), ErrDone, ErrRefused; any other is an unknown outcome.
	Acquire(ctx context.Context, req Request) (Lease, error)

	// Renew proves the hold and extends it to lease.TTL from now. Errors:
	// ErrLost, ErrRefused; any other is an unknown outcome.
	Renew(ctx context.Context, lease Lease) (Renewal, error)

	// Release ends the hold or gives up the place of id, and forbids the ID for
	// good, known or not. ErrLost says that it had neither: the lease expired, was
	// removed, was never granted, or was released before.
	Release(ctx context.Context, key, id string, outcome Outcome) error

	// Ask leaves a notice for the claim id, or with Notice.Force removes the claim at
	// once. A holder reads the notice with its next renewal. A waiter reads it in
	// HeldError.Notice with its next question, and isn't granted the key any more. Once
	// its place has ended, and once a claim was removed, what is asked for that ID is
	// answered by a *RemovedError, for RemovedFor. A hold that is removed is recorded
	// as the key's last run, of class [Broken]. To ask the same of the same ID again is
	// nothing new, and no error. ErrNotFound says that there is no such claim, and for
	// Supersede, which is for waiters alone, that it waits no more.
	Ask(ctx context.Context, key, id string, notice Notice) error

	// Inspect reports the key's line and last run, as of an instant between call
	// and return. A key that nobody used has an empty Status.
	Inspect(ctx context.Context, key string) (Status, error)

	// List reports the keys that begin with prefix and have a line or a last
	// run, in order. It ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Status, error]

	// Close lets go of the store. It releases nothing: call it after Release.
	Close() error
}

// Clock is the local clock that a store's leases are measured with. No one can set it.
type Clock int

const (
	// Boottime counts the time that the host was suspended. It is the clock for
	// stores elsewhere, whose leases run out while this host sleeps.
	Boottime Clock = iota
	// Monotonic stands still while the host is suspended. It is the clock for
	// stores whose contenders all sleep with us.
	Monotonic
)

// Traits is what a store can promise.
type Traits struct {
	Clock  Clock         // the local clock that may be trusted with its leases
	MinTTL time.Duration // a shorter TTL is raised to this; zero: none
	MaxTTL time.Duration // a longer TTL is lowered to this; zero: none

	// Slack is how much of a lease of ttl the store's granularity can take
	// away. Nil: nothing.
	Slack func(ttl time.Duration) time.Duration

	Portable bool // any client may ask again, renew and release with an ID, not just the one that asked first
	Outlives bool // claims and MinHold stay when the client that made them is gone
}

// Trusted is how long a lease of ttl may be relied on: ttl less Slack.
func (t Traits) Trusted(ttl time.Duration) time.Duration {
	if t.Slack == nil {
		return ttl
	}
	return ttl - t.Slack(ttl)
}

// Mode says who may hold a key at the same time.
type Mode string

const (
	Exclusive Mode = "exclusive" // one holder
	Shared    Mode = "shared"    // any number of Shared holders and no other
	Slots     Mode = "slots"     // at most Request.Slots holders, all with the same Slots
)

// Token is a fencing token: every grant of a key gets one larger than every
// earlier grant of that key. It is above 0 and below 2^53, so that JSON keeps it.
type Token int64

// MaxToken is the largest token.
const MaxToken Token = 1<<53 - 1

// CheckToken says what is wrong with a token.
func CheckToken(t Token) error {
	switch {
	case t <= 0:
		return fmt.Errorf("the token is %d: tokens are above 0", t)
	case t > MaxToken:
		return fmt.Errorf("the token is %d: tokens are below 2^53", t)
	}
	return nil
}

// Owner tells people whose claim it is. Nothing is decided by it, and all of it
// is foreign text to whoever reads it.
type Owner struct {
	User    string `json:"user"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Command string `json:"command"` // base name; never the arguments
	Note    string `json:"note,omitempty"`
}

// Request asks for a hold of Key.
type Request struct {
	Key     string // see CheckKey
	ID      string // see NewID; unique to this acquisition
	Owner   Owner
	Mode    Mode
	Slots   int           // with Mode Slots: how many may hold, at least 1; else 0
	TTL     time.Duration // how long the grant lasts unless renewed
	Place   time.Duration // where somebody is in the way, stand in line for this long unless asked again; zero: take no place
	MinHold time.Duration // keep the key taken for this long after the grant, however the holder ends; zero: no longer than held
	Once    *Once         // refuse with ErrDone what has succeeded already; nil: run again
}

// Check refuses with [ErrRefused] what makes no sense. Every Acquire begins with it.
func (r Request) Check() error {
	if err := CheckKey(r.Key); err != nil {
		return &RefusedError{Err: err}
	}
	switch {
	case r.ID == "":
		return Refuse("", "a request needs an ID")
	case r.TTL <= 0:
		return Refuse("", "a TTL of %v", r.TTL)
	case r.Place < 0 || r.MinHold < 0:
		return Refuse("", "a place of %v, a MinHold of %v", r.Place, r.MinHold)
	case r.Mode == Slots && r.Slots < 1, r.Mode != Slots && r.Slots != 0:
		return Refuse("", "%d slots", r.Slots)
	case r.Mode != Exclusive && r.Mode != Shared && r.Mode != Slots:
		return Refuse("", "unknown mode %q", r.Mode)
	case r.Once != nil && r.Mode != Exclusive:
		return Refuse("", "a run that isn't repeated needs an exclusive hold")
	case r.Once != nil:
		return r.Once.check()
	}
	return nil
}

// Lease is a grant. It is a plain value: it stays what the store said.
type Lease struct {
	Key     string
	ID      string
	Token   Token
	Mode    Mode
	Slot    int           // with Mode Slots: 0 to Slots-1, no two live holders share one
	TTL     time.Duration // as granted, which may differ from what was asked
	Granted time.Time     // by the store's clock; for display only
	Run     string        // with Request.Once: the run's ID
	Keep    time.Duration // with Request.Once: how long its success is kept; zero: for ever
}

// Renewal is the answer to a renewal that succeeded.
type Renewal struct {
	TTL    time.Duration // as granted this time
	Notice Notice        // zero unless somebody left one
}

// NoticeKind says what a notice asks for.
type NoticeKind string

const (
	Break     NoticeKind = "break"     // an operator wants the key
	Resign    NoticeKind = "resign"    // a leader is asked to step down
	Supersede NoticeKind = "supersede" // a newer waiter took the place
)

// Notice asks a claim to stop. The zero Notice asks nothing.
type Notice struct {
	Kind   NoticeKind `json:"kind,omitempty"`
	By     Owner      `json:"by,omitzero"`
	Reason string     `json:"reason,omitempty"`
	Force  bool       `json:"force,omitempty"` // remove the claim now: its holder hears of it at its next renewal, and two may run until then
}

// Outcome is how a hold ended, for the key's last-run record. The zero Outcome
// says that nothing ran, and leaves that record as it is.
type Outcome struct {
	Class   string // finished, lost, max-runtime, …
	Exit    int    // the exit status of the command, 128+N for signal N
	Success bool   // the command ran under the lock from start to end and exited with 0
	Notice  Notice // why the holder stopped, where somebody had asked for the key
}

// Broken is the class of a run whose hold was removed by force: how its command came
// out isn't known.
const Broken = "broken"
