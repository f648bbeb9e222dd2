package backends

import (
	"errors"
	"fmt"
	"time"
)

// The errors of every driver; test for them with errors.Is. Any other error is
// an unknown outcome.
var (
	ErrHeld     = errors.New("the key is taken")    // comes as *HeldError
	ErrLost     = errors.New("the hold is gone")    // by the store's own word: final
	ErrStale    = errors.New("stale fencing token") // comes as *StaleError
	ErrNotFound = errors.New("not found")
	ErrDone     = errors.New("this run has succeeded")        // comes as *DoneError
	ErrRefused  = errors.New("the store refuses the request") // certainly not applied, and no use trying again; comes as *RefusedError
)

// HeldError says who is in the way. errors.Is(err, ErrHeld) is true.
type HeldError struct {
	Key        string
	AsOf       time.Time     // the store's clock when it was read
	Holders    []Claim       // who holds or cools now; empty where the next in line hasn't taken its turn yet
	Next       *Claim        // the first in line, where nobody holds
	Waiters    int           // places in line, ours not counted
	Ahead      int           // those of them that are in front of us
	Notice     Notice        // left for our place, which won't be granted the key any more; zero: none
	RetryAfter time.Duration // until the claim in front ends unless it is renewed; zero: unknown
	Seen       any           // the driver's own, for Waiter
}

func (e *HeldError) Error() string { return fmt.Sprintf("%q is taken", e.Key) }

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// RemovedFor is how long a store remembers what it tells by a *RemovedError: a waiter on a
// host that slept through a night is told in the morning.
const RemovedFor = 24 * time.Hour

// RemovedError says who has removed the claim by force, or has asked its waiter to
// leave. errors.Is(err, ErrLost) is true.
type RemovedError struct{ Notice Notice }

func (e *RemovedError) Error() string { return "the claim was removed" }

func (e *RemovedError) Is(target error) bool { return target == ErrLost }

// StaleError says which token came before. errors.Is(err, ErrStale) is true.
type StaleError struct {
	Resource       string
	Token, Highest Token
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("token %d is stale for %q, which has seen %d", e.Token, e.Resource, e.Highest)
}

func (e *StaleError) Is(target error) bool { return target == ErrStale }

// DoneError names the run that succeeded. errors.Is(err, ErrDone) is true.
type DoneError struct {
	Key   string
	Entry Entry
}

func (e *DoneError) Error() string { return fmt.Sprintf("%q has succeeded as %q", e.Key, e.Entry.Run) }

func (e *DoneError) Is(target error) bool { return target == ErrDone }

// RefusedError says why the store refuses. errors.Is(err, ErrRefused) is true.
type RefusedError struct {
	Err  error  // without secrets
	Hint string // what the user can do about it; may be empty
}

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Refuse is a *RefusedError with a formatted message.
func Refuse(hint, format string, args ...any) error {
	return &RefusedError{Err: fmt.Errorf(format, args...), Hint: hint}
}

// URLError says what is wrong with a store's URL, without repeating its secrets.
// It is the user's mistake: no store was asked.
type URLError struct{ text string }

func (e *URLError) Error() string { return e.text }

// BadURL is a *URLError with a formatted message.
func BadURL(format string, args ...any) error { return &URLError{fmt.Sprintf(format, args...)} }

// UnusedError says that nobody has used a store yet. errors.Is(err, ErrNotFound) is true.
type UnusedError struct {
	Address string // the store's URL, in a form that holds in any folder, without secrets
	Why     string // what isn't there: "no such file"
}

func (e *UnusedError) Error() string { return e.Address + ": " + e.Why }

func (e *UnusedError) Is(target error) bool { return target == ErrNotFound }
